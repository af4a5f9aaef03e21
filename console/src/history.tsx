// The charts of the last ten minutes: of one model, or of the whole server.

import { useMemo } from "preact/hooks";

import { getJson, query } from "./api";
import { Chart } from "./chart";
import { microseconds, rate } from "./format";
import { usePoll } from "./poll";
import { live } from "./rates";
import { REFRESH_MS } from "./store";
import type { History, Sample } from "./types";

interface Series {
  at: number[];
  rate: (number | null)[];
  failures: (number | null)[];
  mean: (number | null)[];
  queue: (number | null)[];
  compute: (number | null)[];
  pending: (number | null)[];
  batch: (number | null)[];
}

export function seriesOf(samples: Sample[]): Series {
  const series: Series = { at: [], rate: [], failures: [], mean: [], queue: [], compute: [], pending: [], batch: [] };
  samples.forEach((last, index) => {
    const first = samples[index - 1];
    if (first === undefined) {
      return;
    }
    const between = live(first, last, (last.at_ms - first.at_ms) / 1000);
    const executions = last.executions - first.executions;
    series.at.push(last.at_ms / 1000);
    series.rate.push(between?.rate ?? null);
    series.failures.push(between?.failures ?? null);
    series.mean.push(between?.meanUs ?? null);
    series.queue.push(between?.queueUs ?? null);
    series.compute.push(between?.computeUs ?? null);
    series.pending.push(last.pending);
    series.batch.push(executions > 0 ? (last.requests - first.requests) / executions : null);
  });
  return series;
}

const whole = (value: number): string => (Number.isInteger(value) ? String(value) : value.toFixed(1));

export function HistoryCharts({ model, version }: { model?: string; version?: string }) {
  const path = `/console/api/history${query({ model, version })}`;
  const { value, error } = usePoll(path, (signal) => getJson<History>(path, signal), REFRESH_MS);
  const series = useMemo(() => seriesOf(value?.samples ?? []), [value]);
  if (value === undefined) {
    return <p class="muted">{error === undefined ? "Loading the history…" : error.message}</p>;
  }
  if (series.at.length === 0) {
    return <p class="muted">The history begins with the server: a few seconds more.</p>;
  }
  const last = <T,>(values: T[]): T | undefined => values.at(-1);
  return (
    <div class="charts">
      <Chart
        title="Requests"
        lines={[
          { label: "answered", color: "--line-1" },
          { label: "failed", color: "--line-2", dashed: true },
        ]}
        data={[series.at, series.rate, series.failures]}
        format={rate}
        summary={`Requests over the last ten minutes; now ${rate(last(series.rate) ?? undefined)}, of which ${rate(last(series.failures) ?? undefined)} failed`}
      />
      <Chart
        title="Mean latency"
        lines={[
          { label: "request", color: "--line-1" },
          { label: "queue", color: "--line-3", dashed: true },
          { label: "compute", color: "--line-4" },
        ]}
        data={[series.at, series.mean, series.queue, series.compute]}
        format={microseconds}
        summary={`Mean latency over the last ten minutes; now ${microseconds(last(series.mean) ?? undefined)}, of which ${microseconds(last(series.queue) ?? undefined)} in the queue`}
      />
      <Chart
        title="Waiting and running"
        lines={[{ label: "requests", color: "--line-1" }]}
        data={[series.at, series.pending]}
        format={whole}
        summary={`Requests that wait or run, over the last ten minutes; now ${last(series.pending) ?? 0}`}
      />
    </div>
  );
}
