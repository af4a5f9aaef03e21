// All models in a table. "/" searches; the arrows go from row to row, Enter opens one.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { bytes, count, microseconds, rate } from "../format";
import { Empty, isFault, StateBadge } from "../parts";
import { modelHref } from "../router";
import { modelKey, useStore, type LiveModel } from "../store";

type Column = "name" | "state" | "kind" | "rate" | "latency" | "queue" | "pending" | "failures" | "memory";

const COLUMNS: { column: Column; title: string; number: boolean; value: (each: LiveModel) => number | string }[] = [
  { column: "name", title: "Model", number: false, value: ({ row }) => row.name },
  { column: "state", title: "State", number: false, value: ({ row }) => (isFault(row) ? `0${row.state}` : row.state) },
  { column: "kind", title: "Kind", number: false, value: ({ row }) => `${row.kind} ${row.platform}` },
  { column: "rate", title: "Rate", number: true, value: ({ live }) => live?.rate ?? 0 },
  { column: "latency", title: "Latency", number: true, value: ({ live }) => live?.meanUs ?? 0 },
  { column: "queue", title: "Queue", number: true, value: ({ live }) => live?.queueUs ?? 0 },
  { column: "pending", title: "Pending", number: true, value: ({ row }) => row.pending },
  { column: "failures", title: "Failures", number: true, value: ({ row }) => row.failures },
  { column: "memory", title: "Memory", number: true, value: ({ row }) => row.memory_bytes ?? 0 },
];

// What the search and the order were lasts as long as the page.
const kept = { search: "", state: "all", column: "name" as Column, descending: false };

const FILTERS: { value: string; text: string; fits: (each: LiveModel) => boolean }[] = [
  { value: "all", text: "all states", fits: () => true },
  { value: "ready", text: "ready", fits: ({ row }) => row.state === "READY" },
  { value: "busy", text: "with requests now", fits: ({ row, live }) => row.pending > 0 || (live?.rate ?? 0) > 0 },
  { value: "faults", text: "with faults", fits: ({ row }) => isFault(row) },
  { value: "idle", text: "not ready", fits: ({ row }) => row.state !== "READY" },
];

function fitsSearch({ row }: LiveModel, words: string[]): boolean {
  const text = `${row.name} ${row.kind} ${row.platform} ${row.origin}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function Row({ model, first }: { model: LiveModel; first: boolean }) {
  const { row, live } = model;
  return (
    <tr>
      <th scope="row">
        <a href={modelHref(row.name, row.version)} data-row tabIndex={first ? 0 : -1}>
          {row.name}
        </a>
        {row.version !== "" && <span class="muted version"> {row.version}</span>}
      </th>
      <td>
        <StateBadge state={row.state} reason={row.reason} />
        {isFault(row) && (
          <span class="reason" title={row.reason}>
            {row.reason}
          </span>
        )}
      </td>
      <td>
        {row.kind} {row.kind === "model" && <span class="muted">{row.platform}</span>}
      </td>
      <td class="number">{row.state === "READY" ? rate(live?.rate) : ""}</td>
      <td class="number">{row.state === "READY" ? microseconds(live?.meanUs) : ""}</td>
      <td class="number">{row.state === "READY" ? microseconds(live?.queueUs) : ""}</td>
      <td class="number">{row.pending > 0 ? count(row.pending) : ""}</td>
      <td class={row.failures > 0 ? "number warn" : "number"}>{row.failures > 0 ? count(row.failures) : ""}</td>
      <td class="number">{row.memory_bytes === undefined ? "" : bytes(row.memory_bytes)}</td>
    </tr>
  );
}

// Moves the focus along the rows' links, which are one stop of the Tab key together.
function moveFocus(event: KeyboardEvent, body: HTMLElement): void {
  const links = [...body.querySelectorAll<HTMLElement>("[data-row]")];
  const at = links.indexOf(document.activeElement as HTMLElement);
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 };
  let to: number;
  if (event.key === "Home") {
    to = 0;
  } else if (event.key === "End") {
    to = links.length - 1;
  } else {
    const step = steps[event.key];
    if (step === undefined) {
      return;
    }
    to = Math.min(at + step, links.length - 1);
  }
  event.preventDefault();
  if (to < 0) {
    document.getElementById("search")?.focus();
    return;
  }
  links.forEach((link, index) => (link.tabIndex = index === to ? 0 : -1));
  links[to]?.focus();
}

export function ModelsView() {
  const { models, error } = useStore();
  const [view, setView] = useState(kept);
  const body = useRef<HTMLTableSectionElement>(null);
  useEffect(() => {
    Object.assign(kept, view);
  }, [view]);

  const shown = useMemo(() => {
    const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = FILTERS.find((each) => each.value === view.state)?.fits ?? (() => true);
    const by = COLUMNS.find((each) => each.column === view.column)?.value ?? (({ row }: LiveModel) => row.name);
    const sign = view.descending ? -1 : 1;
    return (models ?? [])
      .filter((each) => fits(each) && fitsSearch(each, words))
      .sort((a, b) => {
        const [left, right] = [by(a), by(b)];
        const order =
          typeof left === "number" && typeof right === "number"
            ? left - right
            : String(left).localeCompare(String(right), "en", { numeric: true });
        return sign * order || a.row.name.localeCompare(b.row.name, "en", { numeric: true });
      });
  }, [models, view]);

  if (models === undefined) {
    return <Empty>{error === undefined ? "Loading…" : error.message}</Empty>;
  }
  return (
    <>
      <div class="title">
        <h1>Models</h1>
        <span class="muted" role="status">
          {shown.length === models.length ? models.length : `${shown.length} of ${models.length}`}
        </span>
        <div class="tools">
          <label class="unseen" for="search">
            Search the models
          </label>
          <input
            id="search"
            type="search"
            placeholder="Search   ( / )"
            autocomplete="off"
            spellcheck={false}
            value={view.search}
            onInput={(event) => setView({ ...view, search: event.currentTarget.value })}
            onKeyDown={(event) => {
              if (event.key === "ArrowDown" || event.key === "Enter") {
                event.preventDefault();
                const link = body.current?.querySelector<HTMLElement>("[data-row]");
                if (event.key === "Enter" && shown.length === 1) {
                  link?.click();
                } else {
                  link?.focus();
                }
              }
            }}
          />
          <label class="unseen" for="state">
            State
          </label>
          <select id="state" value={view.state} onChange={(event) => setView({ ...view, state: event.currentTarget.value })}>
            {FILTERS.map((each) => (
              <option key={each.value} value={each.value}>
                {each.text}
              </option>
            ))}
          </select>
        </div>
      </div>
      <div class="card scroll" tabIndex={0} role="group" aria-label="Table of models">
        <table class="models">
          <thead>
            <tr>
              {COLUMNS.map(({ column, title, number }) => (
                <th
                  key={column}
                  scope="col"
                  class={number ? "number" : ""}
                  aria-sort={view.column === column ? (view.descending ? "descending" : "ascending") : "none"}
                >
                  <button
                    type="button"
                    class="sort"
                    onClick={() =>
                      setView({ ...view, column, descending: view.column === column ? !view.descending : number })
                    }
                  >
                    {title}
                    <span aria-hidden="true">{view.column === column ? (view.descending ? " ↓" : " ↑") : ""}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody ref={body} onKeyDown={(event) => body.current !== null && moveFocus(event, body.current)}>
            {shown.map((model, index) => (
              <Row key={modelKey(model.row)} model={model} first={index === 0} />
            ))}
          </tbody>
        </table>
        {shown.length === 0 && <Empty>{models.length === 0 ? "There are no models." : "No model fits the search."}</Empty>}
      </div>
    </>
  );
}
