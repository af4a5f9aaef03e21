// Asking again and again: one call at a time, none while nobody looks, and again at once when somebody does.

import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError } from "./api";

export interface Polled<T> {
  value: T | undefined; // the last one that came
  error: ApiError | undefined; // of the last call, undefined when it went well
  refresh: () => void;
}

// Whether the server answers: undefined while it does, else when it last did.
type Listener = (lostSince: number | undefined) => void;
const listeners = new Set<Listener>();
let lostSince: number | undefined;

function setLost(lost: boolean): void {
  const next = lost ? (lostSince ?? Date.now()) : undefined;
  if (next !== lostSince) {
    lostSince = next;
    listeners.forEach((listener) => listener(next));
  }
}

export function useLostSince(): number | undefined {
  const [value, setValue] = useState(lostSince);
  useEffect(() => {
    listeners.add(setValue);
    setValue(lostSince);
    return () => {
      listeners.delete(setValue);
    };
  }, []);
  return value;
}

// The second look of what shows differences, so that these are there soon.
export const SECOND_LOOK_MS = 500;

// Calls `ask` now and each `everyMs` after an answer, until `stop` is called. 0: once. The second time comes after `secondMs`.
export function poll<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  everyMs: number,
  on: { value: (value: T) => void; error: (error: ApiError) => void },
  secondMs = everyMs,
): { stop: () => void; refresh: () => void } {
  const abort = new AbortController();
  let timer: number | undefined;
  let asking = false;
  let again = false;
  let nextMs = secondMs;

  async function turn(): Promise<void> {
    window.clearTimeout(timer);
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    try {
      const value = await ask(abort.signal);
      if (!abort.signal.aborted) {
        setLost(false);
        on.value(value);
      }
    } catch (error) {
      if (!abort.signal.aborted) {
        const known = error instanceof ApiError ? error : new ApiError(0, String(error));
        setLost(known.status === 0);
        on.error(known);
      }
    }
    asking = false;
    if (abort.signal.aborted) {
      return;
    }
    if (again) {
      again = false;
      void turn();
    } else if (everyMs > 0 && !document.hidden) {
      timer = window.setTimeout(() => void turn(), nextMs);
      nextMs = everyMs;
    }
  }

  const look = (): void => {
    if (!document.hidden) {
      void turn();
    }
  };
  document.addEventListener("visibilitychange", look);
  void turn();
  return {
    stop: () => {
      abort.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    },
    refresh: () => void turn(),
  };
}

// A component's poll, begun anew when `key` changes; the value of another key is never shown.
export function usePoll<T>(
  key: string,
  ask: (signal: AbortSignal) => Promise<T>,
  everyMs: number,
  secondMs = everyMs,
): Polled<T> {
  const [state, setState] = useState<{ key: string; value?: T; error?: ApiError }>({ key });
  const refresh = useRef<() => void>(() => undefined);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const running = poll(
      (signal) => latest.current(signal),
      everyMs,
      {
        value: (value) => setState({ key, value }),
        error: (error) => setState((last) => (last.key === key ? { ...last, error } : { key, error })),
      },
      secondMs,
    );
    refresh.current = running.refresh;
    return running.stop;
  }, [key, everyMs]);
  const mine = state.key === key ? state : { key };
  return { value: mine.value, error: mine.error, refresh: () => refresh.current() };
}
