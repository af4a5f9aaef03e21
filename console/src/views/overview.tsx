// The server as a whole: what it is, what it does now, and what needs a look.

import { bytes, count, duration, microseconds, percent, plural, rate } from "../format";
import { HistoryCharts } from "../history";
import { Empty, Figure, isFault, StateBadge } from "../parts";
import { modelHref } from "../router";
import { useStore, type LiveModel } from "../store";

const BUSIEST = 8;

// Whether there were two looks at the counters.
function isMeasured(models: LiveModel[]): boolean {
  return models.length === 0 || models.some((each) => each.live !== undefined);
}

function sum(models: LiveModel[], of: (each: LiveModel) => number): number {
  return models.reduce((total, each) => total + of(each), 0);
}

function Figures({ models }: { models: LiveModel[] }) {
  const { overview, cpu } = useStore();
  if (overview === undefined) {
    return null;
  }
  const { server, process, machine, connections, client_memory: memory } = overview;
  // What is made of others is asked by clients and asks the others itself: counted once here, as a sum of all.
  const failures = sum(models, (each) => each.live?.failures ?? 0);
  const workers = sum(models, (each) => each.row.memory_bytes ?? 0);
  const ready = models.filter((each) => each.row.state === "READY").length;
  return (
    <dl class="figures">
      <Figure name="Models ready" note={`of ${models.length}`}>
        {ready}
      </Figure>
      <Figure name="Requests" note={failures > 0 ? `${rate(failures)} fail` : "of all models"}>
        {rate(isMeasured(models) ? sum(models, (each) => each.live?.rate ?? 0) : undefined)}
      </Figure>
      <Figure name="Waiting and running">{count(sum(models, (each) => each.row.pending))}</Figure>
      <Figure name="CPU of the server" note={`of ${plural(machine.cores, "core")}`}>
        {cpu === undefined ? "–" : percent(cpu)}
      </Figure>
      <Figure name="Memory" note={workers > 0 ? `+ ${bytes(workers)} in workers` : `of ${bytes(machine.memory_bytes)}`}>
        {bytes(process.proportional_bytes || process.resident_bytes)}
      </Figure>
      <Figure
        name="Requests in memory"
        note={memory.budget_bytes > 0 ? `of ${bytes(memory.budget_bytes)}` : "without a bound"}
      >
        {bytes(memory.used_bytes)}
      </Figure>
      <Figure name="Connections" note="HTTP, gRPC">
        {connections.http}, {connections.grpc}
      </Figure>
      <Figure name="Up for">{duration(server.now_ms - server.started_ms)}</Figure>
    </dl>
  );
}

function Faults({ models }: { models: LiveModel[] }) {
  const faults = models.filter(({ row }) => isFault(row) || row.instances_ready < row.instances);
  if (faults.length === 0) {
    return null;
  }
  return (
    <section class="card fault-list" aria-labelledby="faults">
      <h2 id="faults">Needs a look</h2>
      <ul>
        {faults.slice(0, 20).map(({ row }) => (
          <li key={`${row.name} ${row.version}`}>
            <StateBadge state={row.state} reason={row.reason} />
            <a href={modelHref(row.name, row.version)}>{row.name}</a>
            <span class="reason">
              {isFault(row) ? row.reason : `${row.instances_ready} of ${plural(row.instances, "instance")} ready`}
            </span>
          </li>
        ))}
      </ul>
      {faults.length > 20 && <p class="muted">and {faults.length - 20} more</p>}
    </section>
  );
}

function Busiest({ models }: { models: LiveModel[] }) {
  const busy = models
    .filter((each) => (each.live?.rate ?? 0) > 0 || each.row.pending > 0)
    .sort((a, b) => (b.live?.busy ?? 0) - (a.live?.busy ?? 0) || (b.live?.rate ?? 0) - (a.live?.rate ?? 0))
    .slice(0, BUSIEST);
  return (
    <section class="card" aria-labelledby="busiest">
      <h2 id="busiest">
        Busiest now <span class="muted">last 10 s</span>
      </h2>
      {busy.length === 0 ? (
        <Empty>{isMeasured(models) ? "No requests in the last seconds." : "The last seconds are being measured."}</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-labelledby="busiest">
          <table>
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col" class="number">
                  Rate
                </th>
                <th scope="col" class="number">
                  Latency
                </th>
                <th scope="col" class="number">
                  Queue
                </th>
                <th scope="col" class="number">
                  At a time
                </th>
              </tr>
            </thead>
            <tbody>
              {busy.map(({ row, live }) => (
                <tr key={`${row.name} ${row.version}`}>
                  <th scope="row">
                    <a href={modelHref(row.name, row.version)}>{row.name}</a>
                  </th>
                  <td class="number">{rate(live?.rate)}</td>
                  <td class="number">{microseconds(live?.meanUs)}</td>
                  <td class="number">{microseconds(live?.queueUs)}</td>
                  <td class="number">{(live?.busy ?? 0).toFixed(2)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function About() {
  const { overview } = useStore();
  if (overview === undefined) {
    return null;
  }
  const { server, process, refused } = overview;
  const addresses = Object.entries(server.addresses);
  const counted = refused.filter((each) => each.count > 0);
  return (
    <section class="card" aria-labelledby="about">
      <h2 id="about">Server</h2>
      <dl class="pairs">
        <dt>Version</dt>
        <dd>
          {server.name} {server.version}
        </dd>
        {addresses.map(([protocol, address]) => (
          <>
            <dt>{protocol === "http" || protocol === "grpc" ? protocol.replace("http", "HTTP").replace("grpc", "gRPC") : protocol}</dt>
            <dd>
              <code>{address}</code>
            </dd>
          </>
        ))}
        <dt>Process</dt>
        <dd>
          {process.pid}, {plural(process.threads, "thread")}, {plural(process.descriptors, "descriptor")}
        </dd>
        <dt>Refused</dt>
        <dd>
          {counted.length === 0
            ? "nothing by a limit"
            : counted.map((each) => `${count(each.count)} by ${each.limit}`).join(", ")}
        </dd>
      </dl>
    </section>
  );
}

export function OverviewView() {
  const { models, overview, error } = useStore();
  if (models === undefined || overview === undefined) {
    const waiting = models === undefined ? "Loading…" : "You have no right to see the whole server; see its models.";
    return <Empty>{error === undefined ? waiting : error.message}</Empty>;
  }
  return (
    <>
      <h1 class="unseen">Overview</h1>
      <Figures models={models} />
      <Faults models={models} />
      <section class="card" aria-label="The last ten minutes">
        <HistoryCharts />
      </section>
      <div class="columns">
        <Busiest models={models} />
        <About />
      </div>
    </>
  );
}
