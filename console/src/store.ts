// What all views look at: the server, and every model with what it did in the last seconds.

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

import { ApiError, getJson } from "./api";
import { poll, SECOND_LOOK_MS } from "./poll";
import { live, Window, type Live } from "./rates";
import { whole, type May, type ModelRow, type Models, type Overview } from "./types";

export const REFRESH_MS = 2000;

export interface LiveModel {
  row: ModelRow;
  live: Live | undefined;
}

export interface Store {
  overview: Overview | undefined; // also where the user has no right to see the whole server
  may: May | undefined;
  manageHow: Models["manage_how"];
  cpu: number | undefined; // cores that the server's own process uses
  models: LiveModel[] | undefined;
  nowMs: number;
  error: ApiError | undefined;
  refresh: () => void;
}

export function modelKey(row: { name: string; version: string }): string {
  return `${row.name}\n${row.version}`;
}

const NOTHING: Omit<Store, "refresh"> = {
  overview: undefined,
  may: undefined,
  manageHow: "none",
  cpu: undefined,
  models: undefined,
  nowMs: 0,
  error: undefined,
};

export const StoreContext = createContext<Store>({
  ...NOTHING,
  refresh: () => undefined,
});

export function useStore(): Store {
  return useContext(StoreContext);
}

function liveModels(answer: Models, looks: Window<Map<string, ModelRow>>): LiveModel[] {
  const rows = answer.models.map(whole);
  looks.add(answer.now_ms, new Map(rows.map((row) => [modelKey(row), row])));
  const span = looks.span();
  return rows.map((row) => {
    const before = span?.first.get(modelKey(row));
    return { row, live: before === undefined || span === undefined ? undefined : live(before, row, span.seconds) };
  });
}

// A user of some models alone sees those, and nothing of the whole server.
function noRight(error: unknown): undefined {
  if (!(error instanceof ApiError && error.status === 403)) {
    throw error;
  }
}

// The one poll of both; used by the page's root alone. `token` begins it anew.
export function useStorePoll(token: string): Store {
  const [state, setState] = useState(NOTHING);
  const [refresh, setRefresh] = useState<() => void>(() => () => undefined);
  useEffect(() => {
    const rows = new Window<Map<string, ModelRow>>();
    const processes = new Window<number>();
    const running = poll(
      async (signal) =>
        Promise.all([
          getJson<Overview>("/console/api/overview", signal).catch(noRight),
          getJson<Models>("/console/api/models", signal),
        ]),
      REFRESH_MS,
      {
        value: ([overview, models]) => {
          if (overview !== undefined) {
            processes.add(overview.server.now_ms, overview.process.cpu_us);
          }
          const span = processes.span();
          setState({
            overview,
            may: models.may,
            manageHow: models.manage_how,
            cpu: span === undefined ? undefined : (span.last - span.first) / 1e6 / span.seconds,
            models: liveModels(models, rows),
            nowMs: models.now_ms,
            error: undefined,
          });
        },
        error: (error) => setState((last) => ({ ...last, error })),
      },
      SECOND_LOOK_MS,
    );
    setRefresh(() => running.refresh);
    return running.stop;
  }, [token]);
  return { ...state, refresh };
}
