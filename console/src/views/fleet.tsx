// The replicas that the server was told of, and what they serve. The server asks them for each look of this view.

import { useRef } from "preact/hooks";

import { getJson } from "../api";
import { clock, count, duration, microseconds, NONE, plural, rate } from "../format";
import { Empty, Figure } from "../parts";
import { usePoll } from "../poll";
import { live, Window, type Live } from "../rates";
import type { Fleet, FleetLoad, FleetReplica } from "../types";

const REFRESH_MS = 5000;

type Counters = Parameters<typeof live>[0];
type Looks = Map<string, Window<Counters>>;
type LiveReplica = { replica: FleetReplica; load: FleetLoad; live: Live | undefined };
type Model = Fleet["models"][number];

function sum(values: (number | null)[]): number | null {
  return values.reduce((total, each) => (total === null || each === null ? null : total + each), 0);
}

function loadOf(replica: FleetReplica): FleetLoad {
  const loads = (replica.models ?? []).map((each) => each.load);
  const total = (of: (load: FleetLoad) => number): number => loads.reduce((all, each) => all + of(each), 0);
  return {
    requests: total((each) => each.requests),
    failures: total((each) => each.failures),
    queue_ns: total((each) => each.queue_ns),
    waiting: replica.answered ? sum(loads.map((each) => each.waiting)) : null,
    live_sequences: replica.answered ? sum(loads.map((each) => each.live_sequences)) : null,
  };
}

// What the replica did between the looks of the last seconds at it.
function liveReplica(replica: FleetReplica, looks: Looks): LiveReplica {
  const load = loadOf(replica);
  const window = looks.get(replica.endpoint) ?? new Window<Counters>();
  looks.set(replica.endpoint, window);
  if (replica.at_ms === undefined) {
    return { replica, load, live: undefined };
  }
  const { requests, failures, queue_ns } = load;
  window.add(replica.at_ms, { requests, failures, request_us: 0, queue_us: queue_ns / 1000, compute_us: 0 });
  const span = window.span();
  return { replica, load, live: span && live(span.first, span.last, span.seconds) };
}

const known = (figure: number | null): string => (figure === null ? NONE : count(figure));

function Badge({ name, sign, text }: { name: "good" | "busy" | "bad"; sign: string; text: string }) {
  return (
    <span class={`badge ${name}`}>
      <span aria-hidden="true">{sign}</span> {text}
    </span>
  );
}

const DIFFERS = <Badge name="busy" sign="▲" text="differs" />;

function ReplicaState({ replica }: { replica: FleetReplica }) {
  if (!replica.answered) {
    return <Badge name="bad" sign="✕" text="no answer" />;
  }
  return replica.ready === true ? (
    <Badge name="good" sign="●" text="ready" />
  ) : (
    <Badge name="busy" sign="◐" text="not ready" />
  );
}

function Faults({ fleet }: { fleet: Fleet }) {
  const silent = fleet.replicas.filter((each) => !each.answered);
  const unknown = fleet.replicas.filter((each) => each.no_metrics !== undefined);
  if (silent.length + unknown.length + fleet.differences.length === 0) {
    return null;
  }
  return (
    <section class="card fault-list" aria-labelledby="faults">
      <h2 id="faults">Needs a look</h2>
      <ul>
        {silent.map((each) => (
          <li key={each.endpoint}>
            <ReplicaState replica={each} />
            {each.endpoint}
            <span class="reason">{each.error}</span>
          </li>
        ))}
        {fleet.differences.map((each) => (
          <li key={each}>
            {DIFFERS}
            <span class="reason">{each}</span>
          </li>
        ))}
        {unknown.map((each) => (
          <li key={each.endpoint}>
            <Badge name="busy" sign="◐" text="no metrics" />
            {each.endpoint}
            <span class="reason">{each.no_metrics}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Replicas({ replicas }: { replicas: LiveReplica[] }) {
  return (
    <section class="card" aria-labelledby="replicas">
      <h2 id="replicas">
        Replicas <span class="muted">rates of the last seconds</span>
      </h2>
      <div class="scroll" tabIndex={0} role="group" aria-labelledby="replicas">
        <table>
          <thead>
            <tr>
              <th scope="col">Replica</th>
              <th scope="col">State</th>
              <th scope="col">Server</th>
              {["Up for", "Models ready", "Rate", "Failures", "Queue", "Waiting", "Sequences"].map((title) => (
                <th key={title} scope="col" class="number">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {replicas.map(({ replica, load, live: lately }) => {
              const models = replica.models ?? [];
              const ready = models.filter((each) => each.versions.some((version) => version.state === "READY"));
              const started = replica.started_ms ?? undefined;
              const up = started === undefined || replica.at_ms === undefined ? NONE : duration(replica.at_ms - started);
              return (
                <tr key={replica.endpoint}>
                  <th scope="row">{replica.endpoint}</th>
                  <td>
                    <ReplicaState replica={replica} />
                  </td>
                  <td>{replica.server ?? NONE}</td>
                  <td class="number">{up}</td>
                  <td class="number">{replica.answered ? `${ready.length} of ${models.length}` : NONE}</td>
                  <td class="number">{rate(lately?.rate)}</td>
                  <td class={lately !== undefined && lately.failures > 0 ? "number warn" : "number"}>
                    {rate(lately?.failures)}
                  </td>
                  <td class="number">{microseconds(lately?.queueUs)}</td>
                  <td class="number">{known(load.waiting)}</td>
                  <td class="number">{known(load.live_sequences)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

// "1, 2 loading", or that the replica does not have the model.
function versionsAt(replica: FleetReplica, name: string): string {
  const versions = replica.models?.find((each) => each.name === name)?.versions;
  if (versions === undefined) {
    return "missing";
  }
  const lacks = (state: string): string => (state === "READY" ? "" : state.toLowerCase() || "not loaded");
  return versions.map(({ version, state }) => `${version} ${lacks(state)}`.trim()).join(", ");
}

function Versions({ model, replicas }: { model: Model; replicas: FleetReplica[] }) {
  const sides = new Map<string, string[]>();
  for (const replica of replicas) {
    if (replica.answered) {
      const versions = versionsAt(replica, model.name);
      sides.set(versions, [...(sides.get(versions) ?? []), replica.endpoint]);
    }
  }
  if (sides.size === 1) {
    return <>{[...sides.keys()][0]}</>;
  }
  return (
    <ul>
      {[...sides].map(([versions, where]) => (
        <li key={versions}>
          {versions} <span class="muted">at {where.join(", ")}</span>
        </li>
      ))}
    </ul>
  );
}

function Models({ fleet }: { fleet: Fleet }) {
  return (
    <section class="card" aria-labelledby="fleet-models">
      <h2 id="fleet-models">
        Models <span class="muted">counted since each replica's start</span>
      </h2>
      <div class="scroll" tabIndex={0} role="group" aria-labelledby="fleet-models">
        <table>
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Between replicas</th>
              <th scope="col">Versions</th>
              {["Ready at", "Sequences", "Waiting", "Requests", "Failures"].map((title) => (
                <th key={title} scope="col" class="number">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {fleet.models.map((model) => (
              <tr key={model.name}>
                <th scope="row">{model.name}</th>
                <td>{model.differs ? DIFFERS : "the same"}</td>
                <td>
                  <Versions model={model} replicas={fleet.replicas} />
                </td>
                <td class="number">
                  {model.ready_at} of {fleet.replicas.length}
                </td>
                <td class="number">{model.sequence_model ? known(model.load.live_sequences) : ""}</td>
                <td class="number">{known(model.load.waiting)}</td>
                <td class="number">{count(model.load.requests)}</td>
                <td class={model.load.failures > 0 ? "number warn" : "number"}>{count(model.load.failures)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function FleetView() {
  const looks = useRef<Looks>(new Map());
  const { value, error } = usePoll(
    "fleet",
    async (signal) => {
      const fleet = await getJson<Fleet>("/console/api/fleet", signal);
      return { fleet, replicas: fleet.replicas.map((each) => liveReplica(each, looks.current)), at: Date.now() };
    },
    REFRESH_MS,
  );
  if (value === undefined) {
    return <Empty>{error === undefined ? "Loading…" : error.message}</Empty>;
  }
  const { fleet, replicas, at } = value;
  const rates = replicas.flatMap((each) => (each.live === undefined ? [] : [each.live.rate]));
  const answered = replicas.filter(({ replica }) => replica.answered);
  return (
    <>
      <div class="title">
        <h1>Fleet</h1>
        <span class="muted">
          {plural(replicas.length, "replica")}, asked at {clock(at)}
        </span>
        <span class="warn" role="status">
          {error?.message}
        </span>
      </div>
      <dl class="figures">
        <Figure name="Replicas ready" note={`of ${replicas.length}`}>
          {replicas.filter(({ replica }) => replica.ready === true).length}
        </Figure>
        <Figure name="Requests" note="of all that answer">
          {rates.length === 0 ? NONE : rate(rates.reduce((all, each) => all + each, 0))}
        </Figure>
        <Figure name="Waiting">{known(sum(answered.map((each) => each.load.waiting)))}</Figure>
        <Figure name="Sequences">{known(sum(answered.map((each) => each.load.live_sequences)))}</Figure>
      </dl>
      <Faults fleet={fleet} />
      <Replicas replicas={replicas} />
      <Models fleet={fleet} />
    </>
  );
}
