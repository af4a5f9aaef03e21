// One version of a model: what it does, and a tab for each thing that can be looked at.

import { useEffect, useState } from "preact/hooks";

import { ApiError, call, getJson } from "../api";
import { ago, bytes, count, microseconds, plural, rate } from "../format";
import { HistoryCharts } from "../history";
import { Dialog, Empty, Figure, isFault, StateBadge } from "../parts";
import { SECOND_LOOK_MS, usePoll } from "../poll";
import { modelHref, TABS, type Tab } from "../router";
import { REFRESH_MS, useStore, type LiveModel } from "../store";
import { wholeDetail, type ModelDetail, type ModelRow } from "../types";
import { ConfigurationTab } from "./configuration";
import { LogView } from "./log";
import { SequencesTab } from "./sequences";
import { StructureTab } from "./structure";
import { TracesTab } from "./traces";
import { TryTab } from "./try";
import { WorkersTab } from "./workers";

const TITLES: Record<Tab, string> = {
  overview: "Overview",
  structure: "Structure",
  try: "Try",
  workers: "Workers",
  log: "Log",
  sequences: "Sequences",
  traces: "Traces",
  configuration: "Configuration",
};

type Action = "load" | "unload" | "reload";

// What can be done, each with the reason why it cannot.
function actionsOf(row: ModelRow, how: "load" | "reload" | "none", may: boolean): { action: Action; reason: string }[] {
  const denied = may ? "" : "Your rights at this port do not include management.";
  if (how === "reload") {
    return [{ action: "reload", reason: denied }];
  }
  const mode = how === "load" ? "" : "Models are loaded and unloaded by hand with --model-control-mode=explicit only.";
  const loaded = row.state === "READY" || row.state === "LOADING";
  return [
    { action: "load", reason: denied || mode },
    { action: "unload", reason: denied || mode || (loaded ? "" : "It is not loaded.") },
  ];
}

const QUESTIONS: Record<Action, (name: string, loaded: boolean) => { title: string; text: string }> = {
  load: (name, loaded) =>
    loaded
      ? { title: `Load ${name} again?`, text: "It is read anew; requests are answered by the old one until the new one is ready." }
      : { title: `Load ${name}?`, text: "Its latest version is read from the repository." },
  unload: (name) => ({
    title: `Unload ${name}?`,
    text: "Requests that run are finished; new ones are refused, also those of ensembles over it.",
  }),
  reload: () => ({
    title: "Read config.json again?",
    text: "All models, pipelines and graphs follow what it says now, not only this one.",
  }),
};

function Actions({ row, onDone }: { row: ModelRow; onDone: () => void }) {
  const { may, manageHow } = useStore();
  const [asked, setAsked] = useState<Action>();
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ text: string; failed: boolean }>();
  useEffect(() => setMessage(undefined), [row.name]);
  if (may === undefined) {
    return null;
  }
  const act = async (action: Action): Promise<void> => {
    setAsked(undefined);
    setBusy(true);
    setMessage({ text: `${action === "load" ? "Loading" : action === "unload" ? "Unloading" : "Reading config.json"}…`, failed: false });
    try {
      const path =
        action === "reload" ? "/v1/config/reload" : `/v2/repository/models/${encodeURIComponent(row.name)}/${action}`;
      await call(path, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } });
      setMessage({ text: "Done.", failed: false });
    } catch (error) {
      setMessage({ text: error instanceof ApiError ? error.message : String(error), failed: true });
    }
    setBusy(false);
    onDone();
  };
  const actions = actionsOf(row, manageHow, may.manage);
  const question = asked === undefined ? undefined : QUESTIONS[asked](row.name, row.state === "READY");
  const reasons = [...new Set(actions.map((each) => each.reason).filter(Boolean))];
  return (
    <div class="actions">
      {actions.map(({ action, reason }) => (
        <button
          key={action}
          type="button"
          aria-disabled={reason !== "" || busy}
          title={reason}
          aria-describedby={reason === "" ? undefined : "why-not"}
          onClick={() => {
            // A finger cannot point at it: a touch shows the reason.
            if (reason !== "") {
              setMessage({ text: reason, failed: false });
            } else if (!busy) {
              setAsked(action);
            }
          }}
        >
          {action === "load" ? (row.state === "READY" ? "Load again" : "Load") : action === "unload" ? "Unload" : "Reload config.json"}
        </button>
      ))}
      {reasons.length > 0 && (
        <span id="why-not" class="unseen">
          {reasons.join(" ")}
        </span>
      )}
      {message !== undefined && (
        <span class={message.failed ? "warn" : "muted"} role="status">
          {message.text}
        </span>
      )}
      {asked !== undefined && question !== undefined && (
        <Dialog title={question.title} onClose={() => setAsked(undefined)}>
          <p>{question.text}</p>
          <form method="dialog" class="buttons">
            <button type="submit">Cancel</button>
            <button
              type="button"
              class={asked === "unload" ? "danger" : "primary"}
              onClick={() => void act(asked)}
            >
              {asked === "load" ? "Load" : asked === "unload" ? "Unload" : "Read again"}
            </button>
          </form>
        </Dialog>
      )}
    </div>
  );
}

function Figures({ row, live, nowMs }: { row: ModelRow; live: LiveModel["live"]; nowMs: number }) {
  const all = row.requests > 0 ? row.request_us / row.requests : undefined;
  return (
    <dl class="figures">
      <Figure name="Requests" note={`${count(row.requests)} in all`}>
        {rate(live?.rate)}
      </Figure>
      <Figure name="Latency" note={`mean of all ${microseconds(all)}`}>
        {microseconds(live?.meanUs)}
      </Figure>
      <Figure name="Queue" note={`compute ${microseconds(live?.computeUs)}`}>
        {microseconds(live?.queueUs)}
      </Figure>
      {row.first_response_us !== undefined && row.requests > 0 && (
        <Figure name="First answer" note="mean of all">
          {microseconds(row.first_response_us / row.requests)}
        </Figure>
      )}
      <Figure name="Waiting and running" note={row.instances > 0 ? plural(row.instances, "instance") : undefined}>
        {count(row.pending)}
      </Figure>
      <Figure
        name="Failures"
        note={[row.rejected > 0 ? `${count(row.rejected)} rejected` : "", row.canceled > 0 ? `${count(row.canceled)} cancelled` : ""]
          .filter(Boolean)
          .join(", ")}
      >
        <span class={row.failures > 0 ? "warn" : ""}>{count(row.failures)}</span>
      </Figure>
      {row.executions > 0 && (
        <Figure name="Rows an execution" note={`${count(row.executions)} executions`}>
          {(row.rows / row.executions).toFixed(row.rows === row.executions ? 0 : 2)}
        </Figure>
      )}
      {row.memory_bytes !== undefined && (
        <Figure name="Memory of workers" note={row.restarts > 0 ? plural(row.restarts, "restart") : undefined}>
          {bytes(row.memory_bytes)}
        </Figure>
      )}
      {row.sequences !== undefined && <Figure name="Sequences">{count(row.sequences)}</Figure>}
      <Figure name="Last request">{row.last_inference_ms > 0 ? ago(nowMs - row.last_inference_ms) : "never"}</Figure>
    </dl>
  );
}

// What there is to see of this one.
function tabsOf(row: ModelRow, detail: ModelDetail | undefined): Tab[] {
  return TABS.filter((tab) => {
    switch (tab) {
      case "structure":
        return row.kind !== "model";
      case "workers":
        return row.kind === "model" || (detail?.workers.length ?? 0) > 0;
      case "sequences":
        return row.stateful;
      default:
        return true;
    }
  });
}

function TabContent({ tab, row, detail, live, nowMs, problem }: {
  tab: Tab;
  row: ModelRow;
  detail: ModelDetail | undefined;
  live: LiveModel["live"];
  nowMs: number;
  problem: ApiError | undefined;
}) {
  switch (tab) {
    case "overview":
      return (
        <>
          <Figures row={row} live={live} nowMs={nowMs} />
          {row.version !== "" && (
            <section class="card" aria-label="The last ten minutes">
              <HistoryCharts model={row.name} version={row.version} />
            </section>
          )}
        </>
      );
    case "log":
      return <LogView model={row.name} />;
    case "sequences":
      return <SequencesTab name={row.name} version={row.version} />;
    case "traces":
      return <TracesTab name={row.name} />;
    default:
  }
  if (detail === undefined) {
    return <Empty>{row.version === "" ? "It was not loaded yet." : (problem?.message ?? "Loading…")}</Empty>;
  }
  switch (tab) {
    case "structure":
      return <StructureTab model={detail} nowMs={nowMs} />;
    case "try":
      return <TryTab key={`${row.name} ${row.version} ${detail.inputs.length}`} model={detail} />;
    case "workers":
      return <WorkersTab model={detail} nowMs={nowMs} />;
    default:
      return <ConfigurationTab model={detail} />;
  }
}

function Model({ found, versions, tab }: { found: LiveModel; versions: LiveModel[]; tab: Tab }) {
  const { refresh } = useStore();
  const { row, live } = found;
  const path = `/console/api/models/${encodeURIComponent(row.name)}/versions/${encodeURIComponent(row.version)}`;
  // The key has the state, so that what was shown of an unloaded model goes with it.
  const { value, error } = usePoll(
    `${path} ${row.state}`,
    async (signal) => {
      if (row.version === "") {
        throw new ApiError(404, "It was not loaded yet.");
      }
      return { detail: wholeDetail(await getJson<ModelDetail>(path, signal)), at: Date.now() };
    },
    REFRESH_MS,
    SECOND_LOOK_MS,
  );
  const detail = value?.detail;
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href="#/models">Models</a> <span aria-hidden="true">/</span>
      </nav>
      <div class="title">
        <h1>{row.name}</h1>
        {versions.length > 1 ? (
          <>
            <label class="unseen" for="version">
              Version
            </label>
            <select
              id="version"
              value={row.version}
              onChange={(event) => (location.hash = modelHref(row.name, event.currentTarget.value, tab))}
            >
              {versions.map((each) => (
                <option key={each.row.version} value={each.row.version}>
                  version {each.row.version}
                </option>
              ))}
            </select>
          </>
        ) : (
          row.version !== "" && <span class="muted">version {row.version}</span>
        )}
        <StateBadge state={row.state} reason={row.reason} />
        <span class="muted kind">
          {row.kind}
          {row.kind === "model" && row.platform !== "" && `, ${row.platform}`}
          {row.decoupled && ", decoupled"}
          {row.stateful && ", stateful"}
        </span>
        <Actions row={row} onDone={refresh} />
      </div>
      {row.reason !== "" && row.state !== "READY" && (
        <p class={isFault(row) ? "reason-line warn" : "reason-line muted"}>{row.reason}</p>
      )}
      <nav class="tabs" aria-label={`Views of ${row.name}`}>
        {tabsOf(row, detail).map((each) => (
          <a
            key={each}
            href={modelHref(row.name, row.version, each)}
            aria-current={each === tab ? "page" : undefined}
          >
            {TITLES[each]}
          </a>
        ))}
      </nav>
      <TabContent
        tab={tab}
        row={row}
        detail={detail}
        live={live}
        nowMs={value?.at ?? Date.now()}
        problem={error}
      />
    </>
  );
}

export function ModelView({ name, version, tab }: { name: string; version: string; tab: Tab }) {
  const { models, error } = useStore();
  if (models === undefined) {
    return <Empty>{error === undefined ? "Loading…" : error.message}</Empty>;
  }
  const versions = models.filter(({ row }) => row.name === name);
  // A version that has gone, or none: the highest that is there.
  const found =
    versions.find(({ row }) => row.version === version) ??
    [...versions].sort((a, b) => Number(b.row.version) - Number(a.row.version))[0];
  if (found === undefined) {
    return (
      <Empty>
        There is no model {name}. <a href="#/models">All models</a>
      </Empty>
    );
  }
  return <Model key={`${found.row.name} ${found.row.version}`} found={found} versions={versions} tab={tab} />;
}
