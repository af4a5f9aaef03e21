// From counters that only grow to what happened lately: the difference of two looks, by the time between them.

import type { ModelRow } from "./types";

export const WINDOW_MS = 10_000;

// The looks of the last WINDOW_MS at something, the oldest first.
export class Window<T> {
  private looks: { at: number; value: T }[] = [];

  add(at: number, value: T): void {
    const last = this.looks.at(-1);
    if (last !== undefined && at <= last.at) {
      if (at < last.at) {
        this.looks = [];
      } else {
        return;
      }
    }
    this.looks.push({ at, value });
    // One look may lie beyond the window, so that the window is always whole.
    while (this.looks.length > 2 && this.looks[1] !== undefined && this.looks[1].at <= at - WINDOW_MS) {
      this.looks.shift();
    }
  }

  // The first and the last look and the seconds between them; undefined before there are two.
  span(): { first: T; last: T; seconds: number } | undefined {
    const first = this.looks[0];
    const last = this.looks.at(-1);
    if (first === undefined || last === undefined || first === last) {
      return undefined;
    }
    return { first: first.value, last: last.value, seconds: (last.at - first.at) / 1000 };
  }
}

export interface Live {
  rate: number; // answers a second, failures among them
  failures: number; // a second
  meanUs?: number; // of a request; absent where none ended
  queueUs?: number;
  computeUs?: number;
  busy: number; // seconds of requests in a second: how many run or wait at a time
}

type Counters = Pick<ModelRow, "requests" | "failures" | "request_us" | "queue_us" | "compute_us">;

// What happened between two looks; undefined where the counters began anew, because the model was loaded again.
export function live(first: Counters, last: Counters, seconds: number): Live | undefined {
  const requests = last.requests - first.requests;
  const failures = last.failures - first.failures;
  if (requests < 0 || failures < 0 || seconds <= 0) {
    return undefined;
  }
  const mean = (key: "request_us" | "queue_us" | "compute_us"): number | undefined =>
    requests > 0 ? (last[key] - first[key]) / requests : undefined;
  const result: Live = {
    rate: (requests + failures) / seconds,
    failures: failures / seconds,
    busy: (last.request_us - first.request_us) / 1e6 / seconds,
  };
  const [meanUs, queueUs, computeUs] = [mean("request_us"), mean("queue_us"), mean("compute_us")];
  if (meanUs !== undefined && queueUs !== undefined && computeUs !== undefined) {
    Object.assign(result, { meanUs, queueUs, computeUs });
  }
  return result;
}
