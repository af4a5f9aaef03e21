// The end of the server's log, or of one model's part of it, as it is written.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { ApiError, getJson, query } from "../api";
import { clockMs } from "../format";
import { Empty } from "../parts";
import { poll } from "../poll";
import { modelHref } from "../router";
import type { Level, Log, LogLine } from "../types";

const KEPT = 2000;
const EVERY_MS = 1000;

const LEVELS: { value: string; text: string; shown: Level[] }[] = [
  { value: "all", text: "all levels", shown: ["verbose", "info", "output", "warning", "error"] },
  { value: "info", text: "info and above", shown: ["info", "output", "warning", "error"] },
  { value: "warning", text: "warnings and errors", shown: ["warning", "error"] },
  { value: "error", text: "errors", shown: ["error"] },
  { value: "output", text: "what the model prints", shown: ["output"] },
];

interface Tail {
  lines: LogLine[];
  lost: number;
  error: ApiError | undefined;
}

function useTail(model: string): Tail & { clear: () => void } {
  const [tail, setTail] = useState<Tail>({ lines: [], lost: 0, error: undefined });
  useEffect(() => {
    let after = 0;
    setTail({ lines: [], lost: 0, error: undefined });
    const running = poll(
      (signal) => getJson<Log>(`/console/api/log${query({ model, after, limit: 500 })}`, signal),
      EVERY_MS,
      {
        value: (log) => {
          // A server that was started anew counts from the beginning.
          const anew = log.next < after;
          after = anew ? 0 : log.next;
          setTail((last) => {
            if (log.lines.length === 0 && log.lost === 0 && last.error === undefined && !anew) {
              return last;
            }
            return {
              lines: [...(anew ? [] : last.lines), ...log.lines].slice(-KEPT),
              lost: (anew ? 0 : last.lost) + log.lost,
              error: undefined,
            };
          });
          if (log.lines.length >= 500 || anew) {
            running.refresh();
          }
        },
        error: (error) => setTail((last) => ({ ...last, error })),
      },
    );
    return running.stop;
  }, [model]);
  return { ...tail, clear: () => setTail((last) => ({ ...last, lines: [], lost: 0 })) };
}

export function LogView({ model = "" }: { model?: string }) {
  const { lines, lost, error, clear } = useTail(model);
  const [level, setLevel] = useState("all");
  const [search, setSearch] = useState("");
  const [follow, setFollow] = useState(true);
  const place = useRef<HTMLDivElement>(null);

  const shown = useMemo(() => {
    const levels = LEVELS.find((each) => each.value === level)?.shown ?? [];
    const word = search.toLowerCase();
    return lines.filter(
      (line) =>
        levels.includes(line.level) && (line.text.toLowerCase().includes(word) || line.model.toLowerCase().includes(word)),
    );
  }, [lines, level, search]);

  useEffect(() => {
    if (follow && place.current !== null) {
      place.current.scrollTop = place.current.scrollHeight;
    }
  }, [shown, follow]);

  return (
    <section class={model === "" ? "fill" : "card fill"} aria-label={model === "" ? "Log" : `Log of ${model}`}>
      <div class="title">
        {model === "" && <h1>Log</h1>}
        <div class="tools">
          <label class="unseen" for="log-search">
            Search the log
          </label>
          <input
            id="log-search"
            type="search"
            placeholder="Search"
            autocomplete="off"
            spellcheck={false}
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
          <label class="unseen" for="log-level">
            Level
          </label>
          <select id="log-level" value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
            {LEVELS.map((each) => (
              <option key={each.value} value={each.value}>
                {each.text}
              </option>
            ))}
          </select>
          <label class="check">
            <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> follow
          </label>
          <button type="button" onClick={clear}>
            Clear
          </button>
        </div>
      </div>
      {error !== undefined && error.status !== 0 && <p class="warn">{error.message}</p>}
      {lost > 0 && <p class="muted">{lost} older lines are no longer kept by the server.</p>}
      <div
        ref={place}
        class="log"
        role="log"
        aria-label="Lines"
        aria-live="off"
        tabIndex={0}
        onWheel={(event) => {
          if (event.deltaY < 0) {
            setFollow(false);
          }
        }}
      >
        {shown.length === 0 && <Empty>{lines.length === 0 ? "Nothing was logged yet." : "No line fits."}</Empty>}
        {shown.map((line) => (
          <div key={line.seq} class={`line ${line.level}`}>
            <time dateTime={new Date(line.at_ms).toISOString()}>{clockMs(line.at_ms)}</time>
            <span class="level">{line.level}</span>
            {model === "" && line.model !== "" && (
              <a class="model" href={modelHref(line.model, "", "log")}>
                {line.model}
              </a>
            )}
            <span class="text">{line.text.trimEnd()}</span>
          </div>
        ))}
      </div>
    </section>
  );
}
