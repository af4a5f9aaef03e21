// The slowest requests of a model while it is watched, each as a waterfall.

import { useState } from "preact/hooks";

import { ApiError, call, getJson, query } from "../api";
import { clockMs, microseconds } from "../format";
import { Empty } from "../parts";
import { usePoll } from "../poll";
import { useStore } from "../store";
import type { Span, Trace, Traces } from "../types";

const WATCH_S = 60;

function depthOf(spans: Span[], span: Span): number {
  let depth = 0;
  let parent = spans[span.parent];
  while (parent !== undefined && depth < 20) {
    ++depth;
    parent = spans[parent.parent];
  }
  return depth;
}

// The spans in the order of a tree: each behind its parent, by when it began.
function ordered(spans: Span[]): { span: Span; depth: number }[] {
  const children = new Map<number, number[]>();
  spans.forEach((span, index) => {
    const parent = spans[span.parent] === undefined ? -1 : span.parent;
    children.set(parent, [...(children.get(parent) ?? []), index]);
  });
  const result: { span: Span; depth: number }[] = [];
  const visit = (parent: number): void => {
    const begun = (index: number): number => spans[index]?.start_us ?? 0;
    for (const index of (children.get(parent) ?? []).sort((a, b) => begun(a) - begun(b) || a - b)) {
      const span = spans[index];
      if (span !== undefined) {
        result.push({ span, depth: depthOf(spans, span) });
        visit(index);
      }
    }
  };
  visit(-1);
  return result;
}

export function Waterfall({ trace }: { trace: Trace }) {
  const whole = Math.max(trace.duration_us, 1, ...trace.spans.map((span) => span.start_us + span.duration_us));
  const share = (us: number): string => `${(100 * us) / whole}%`;
  return (
    <table class="waterfall">
      <caption class="unseen">Where the time of the request went</caption>
      <thead>
        <tr>
          <th scope="col">Part</th>
          <th scope="col" class="number">
            Begins
          </th>
          <th scope="col" class="number">
            Takes
          </th>
          <th scope="col" class="bars">
            <span class="scale">
              <span>0</span>
              <span>{microseconds(whole / 2)}</span>
              <span>{microseconds(whole)}</span>
            </span>
          </th>
        </tr>
      </thead>
      <tbody>
        {ordered(trace.spans).map(({ span, depth }, index) => (
          <tr key={index}>
            <th scope="row" style={{ paddingLeft: `${8 + depth * 14}px` }}>
              {span.name}
            </th>
            <td class="number">{microseconds(span.start_us)}</td>
            <td class="number">{span.duration_us > 0 ? microseconds(span.duration_us) : "–"}</td>
            <td class="bars">
              <span
                class={`bar ${span.name.toLowerCase().includes("queue") ? "queue" : ""} depth-${Math.min(depth, 3)}`}
                style={{ left: share(span.start_us), width: `max(2px, ${share(span.duration_us)})` }}
              />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function TracesTab({ name }: { name: string }) {
  const { may: mayDo } = useStore();
  const path = `/console/api/traces${query({ model: name })}`;
  const { value, error, refresh } = usePoll(path, (signal) => getJson<Traces>(path, signal), 1000);
  const [chosen, setChosen] = useState("");
  const [failure, setFailure] = useState("");
  const may = mayDo?.trace ?? false;
  const watched = value?.watched_s ?? 0;

  const watch = async (seconds: number): Promise<void> => {
    try {
      await call(`/console/api/traces${query({ model: name, seconds })}`, { method: "POST" });
      setFailure("");
      refresh();
    } catch (problem) {
      setFailure(problem instanceof ApiError ? problem.message : String(problem));
    }
  };

  const traces = value?.traces ?? [];
  const trace = traces.find((each) => each.id === chosen) ?? traces[0];
  const slowest = Math.max(1, ...traces.map((each) => each.duration_us));
  return (
    <>
      <div class="title">
        <button type="button" class="primary" disabled={!may} onClick={() => void watch(WATCH_S)}>
          {watched > 0 ? `Watch ${WATCH_S} s more` : `Watch for ${WATCH_S} s`}
        </button>
        {watched > 0 && (
          <button type="button" onClick={() => void watch(0)}>
            Stop
          </button>
        )}
        <span class="muted" role="status">
          {watched > 0
            ? `Watching: the slowest requests are kept, ${watched} s to go`
            : may
              ? "The slowest requests are kept while a model is watched."
              : "Watching is not allowed to you at this port."}
        </span>
      </div>
      {failure !== "" && <p class="warn">{failure}</p>}
      {value === undefined ? (
        <Empty>{error === undefined ? "Loading…" : error.message}</Empty>
      ) : traces.length === 0 ? (
        <Empty>{watched > 0 ? "No request has ended since the watch began." : "No request was kept."}</Empty>
      ) : (
        <div class="columns traces">
          <section class="card" aria-labelledby="slowest">
            <h2 id="slowest">Slowest requests</h2>
            <ul class="choices">
              {traces.map((each) => (
                <li key={each.id}>
                  <button
                    type="button"
                    aria-pressed={each === trace}
                    onClick={() => setChosen(each.id)}
                  >
                    <span class="value">{microseconds(each.duration_us)}</span>
                    <span class="track" aria-hidden="true">
                      <span style={{ width: `${(100 * each.duration_us) / slowest}%` }} />
                    </span>
                    <span class="muted">
                      {clockMs(each.start_ms)} {each.request_id}
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          </section>
          {trace !== undefined && (
            <section class="card" aria-labelledby="waterfall">
              <h2 id="waterfall">
                {microseconds(trace.duration_us)}{" "}
                <span class="muted">
                  at {clockMs(trace.start_ms)}
                  {trace.request_id !== "" && `, request ${trace.request_id}`}, version {trace.version}
                </span>
              </h2>
              <div class="scroll" tabIndex={0} role="group" aria-labelledby="waterfall">
                <Waterfall trace={trace} />
              </div>
            </section>
          )}
        </div>
      )}
    </>
  );
}
