// An ensemble, a pipeline or a graph, drawn from its definition, with what each part does now; and the same as a table.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { count, microseconds, percent, rate } from "../format";
import { draw, pathThrough, type Box, type Drawing, type Link } from "../layout";
import { Empty } from "../parts";
import { Window } from "../rates";
import { modelHref } from "../router";
import { useStore, type LiveModel } from "../store";
import type { ModelDetail, Structure, StructureNode } from "../types";

interface NodeView {
  node: StructureNode;
  rate: number; // executions a second that ended; since the load: all that ended
  failed: number;
  meanUs: number | undefined;
  queueUs: number | undefined; // of the model that it runs
  inFlight: number;
  share: number; // of the time of all nodes
  hottest: boolean;
  href: string | undefined;
}

interface View {
  nodes: NodeView[];
  edges: number[]; // as `rate` of a node
  recent: boolean; // of the last seconds; else since the load
}

const KINDS: Record<StructureNode["kind"], string> = {
  request: "request",
  response: "response",
  model: "model",
  custom_node: "custom node",
  calculator: "calculator",
  python: "Python node",
};

const isEnd = (node: StructureNode): boolean => node.kind === "request" || node.kind === "response";

function viewOf(
  structure: Structure,
  before: { first: Structure; seconds: number } | undefined,
  models: LiveModel[],
): View {
  const recent = before !== undefined;
  const seconds = before?.seconds ?? 1;
  const times = structure.nodes.map((node, id) => {
    const old = before?.first.nodes[id];
    return {
      ended: node.ended - (old?.ended ?? 0),
      failed: node.failed - (old?.failed ?? 0),
      us: node.total_us - (old?.total_us ?? 0),
    };
  });
  const whole = times.reduce((total, each, id) => {
    const node = structure.nodes[id];
    return node === undefined || isEnd(node) ? total : total + each.us;
  }, 0);
  const longest = Math.max(0, ...times.filter((_each, id) => !isEnd(structure.nodes[id]!)).map((each) => each.us));
  const parts = structure.nodes.filter((node) => !isEnd(node)).length;
  const nodes = structure.nodes.map((node, id): NodeView => {
    const time = times[id]!;
    const used =
      node.kind === "model"
        ? models.find(
            ({ row }) => row.name === node.runs && (node.version < 1 || row.version === String(node.version)),
          )
        : undefined;
    return {
      node,
      rate: time.ended / seconds,
      failed: node.failed,
      meanUs: time.ended > 0 ? time.us / time.ended : undefined,
      queueUs: used === undefined ? undefined : queueOf(used, recent),
      inFlight: Math.max(0, node.started - node.ended),
      share: !isEnd(node) && whole > 0 ? time.us / whole : 0,
      hottest: parts > 1 && !isEnd(node) && longest > 0 && time.us === longest,
      href: used === undefined ? undefined : modelHref(used.row.name, used.row.version),
    };
  });
  const edges = structure.edges.map((edge, id) => (edge.passed - (before?.first.edges[id]?.passed ?? 0)) / seconds);
  return { nodes, edges, recent };
}

function queueOf({ row, live }: LiveModel, recent: boolean): number | undefined {
  if (recent) {
    return live?.queueUs;
  }
  return row.requests > 0 ? row.queue_us / row.requests : undefined;
}

// The same parts as before, so that differences of their counters mean something.
function sameParts(a: Structure, b: Structure): boolean {
  return (
    a.nodes.length === b.nodes.length &&
    a.edges.length === b.edges.length &&
    a.nodes.every((node, id) => node.name === b.nodes[id]?.name && node.ended <= (b.nodes[id]?.ended ?? 0))
  );
}

let measure: CanvasRenderingContext2D | null | undefined;

function widthOf(text: string, font: string): number {
  measure ??= document.createElement("canvas").getContext("2d");
  if (measure === null || measure === undefined) {
    return 0;
  }
  measure.font = font;
  return measure.measureText(text).width;
}

// Text that fits into so many pixels.
function fit(text: string, pixels: number, font: string): string {
  if (widthOf(text, font) <= pixels) {
    return text;
  }
  let short = text;
  while (short.length > 1 && widthOf(`${short}…`, font) > pixels) {
    short = short.slice(0, -1);
  }
  return `${short}…`;
}

const BOLD = "600 13px system-ui, sans-serif";
const PLAIN = "11px system-ui, sans-serif";

function amount(view: View, value: number): string {
  return view.recent ? rate(value) : `${count(value)}×`;
}

function describe(view: View, { node, meanUs, queueUs, inFlight, share, hottest, failed, rate: value }: NodeView): string {
  return [
    `${node.name}, ${KINDS[node.kind]}${node.runs === "" ? "" : ` ${node.runs}`}`,
    view.recent ? rate(value) : `${count(value)} executions`,
    meanUs === undefined ? "" : `takes ${microseconds(meanUs)}`,
    queueUs === undefined ? "" : `of which ${microseconds(queueUs)} in the queue`,
    inFlight > 0 ? `${inFlight} in flight` : "",
    share > 0 ? `${percent(share)} of the time` : "",
    hottest ? "the slowest part" : "",
    failed > 0 ? `${failed} failed` : "",
  ]
    .filter(Boolean)
    .join(", ");
}

function EndShape({ box, each }: { box: Box; each: NodeView }) {
  return (
    <g class="node end" transform={`translate(${box.x - box.width / 2},${box.y - box.height / 2})`}>
      <rect width={box.width} height={box.height} rx={box.height / 2} />
      <text x={box.width / 2} y={box.height / 2 + 4} text-anchor="middle" class="name">
        {KINDS[each.node.kind]}
      </text>
    </g>
  );
}

function NodeShape({ box, each, view }: { box: Box; each: NodeView; view: View }) {
  const { node, share, hottest } = each;
  const runs = node.runs === node.name && node.kind === "model" ? "model" : `${KINDS[node.kind]} · ${node.runs}`;
  const inner = box.width - 24;
  const heat = share >= 0.5 ? 3 : share >= 0.25 ? 2 : share >= 0.1 ? 1 : 0;
  const shape = (
    <>
      <title>{`${node.name}: ${node.runs}${node.note === "" ? "" : ` (${node.note})`}`}</title>
      <rect class={`box heat-${heat}`} width={box.width} height={box.height} rx="7" />
      <rect class={`stripe ${node.kind}`} width="4" height={box.height - 14} x="0" y="7" rx="2" />
      <text x="14" y="20" class="name">
        {fit(node.name, hottest ? inner - 68 : inner, BOLD)}
      </text>
      {hottest && (
        <g transform={`translate(${box.width - 76},7)`} class="hot">
          <rect width="66" height="17" rx="8.5" />
          <text x="33" y="12.5" text-anchor="middle">
            ▲ slowest
          </text>
        </g>
      )}
      <text x="14" y="36" class="quiet">
        {fit(node.note === "" ? runs : `${runs} · ${node.note}`, inner, PLAIN)}
      </text>
      <text x="14" y="55" class="numbers">
        {microseconds(each.meanUs)}
        <tspan class="quiet" dx="8">
          {amount(view, each.rate)}
        </tspan>
        {each.failed > 0 && (
          <tspan class="failed" dx="8">
            ✕ {count(each.failed)}
          </tspan>
        )}
      </text>
      <text x="14" y="71" class="quiet">
        {[
          each.queueUs === undefined ? "" : `queue ${microseconds(each.queueUs)}`,
          each.inFlight > 0 ? `${count(each.inFlight)} in flight` : "",
        ]
          .filter(Boolean)
          .join(" · ")}
      </text>
      <text x={box.width - 10} y="71" class="quiet" text-anchor="end">
        {share > 0 ? percent(share) : ""}
      </text>
      <rect class="track" x="14" y="79" width={inner} height="5" rx="2.5" />
      <rect class={`share heat-${heat}`} x="14" y="79" width={share * inner} height="5" rx="2.5" />
    </>
  );
  const transform = `translate(${box.x - box.width / 2},${box.y - box.height / 2})`;
  return each.href === undefined ? (
    <g class={hottest ? "node hottest" : "node"} transform={transform} role="img" aria-label={describe(view, each)}>
      {shape}
    </g>
  ) : (
    <a href={each.href} aria-label={describe(view, each)}>
      <g class={hottest ? "node hottest" : "node"} transform={transform}>
        {shape}
      </g>
    </a>
  );
}

function portNames(structure: Structure, link: Link): string {
  const names = [...new Set(link.edges.map((id) => structure.edges[id]?.from_port || structure.edges[id]?.to_port || ""))];
  return names.length > 2 ? `${names[0]} +${names.length - 1}` : names.join(", ");
}

function LinkShape({ link, structure, view, most }: { link: Link; structure: Structure; view: View; most: number }) {
  const passed = Math.max(0, ...link.edges.map((id) => view.edges[id] ?? 0));
  const tensors = link.edges
    .map((id) => `${structure.edges[id]?.from_port} → ${structure.edges[id]?.to_port}`)
    .join("\n");
  return (
    <g class={passed > 0 ? "link live" : "link"}>
      <title>{tensors}</title>
      <path d={pathThrough(link.points)} stroke-width={1.25 + (most > 0 ? 2.25 * (passed / most) : 0)} marker-end="url(#arrow)" />
      <text x={link.label.x} y={link.label.y - 3} text-anchor="middle" class="port">
        {fit(portNames(structure, link), link.label.width, PLAIN)}
      </text>
      <text x={link.label.x} y={link.label.y + 11} text-anchor="middle" class="passed">
        {passed > 0 ? amount(view, passed) : ""}
      </text>
    </g>
  );
}

interface Camera {
  x: number; // of the drawing, at the left edge
  y: number;
  scale: number;
}

const LEAST_SCALE = 0.15;
const LEGIBLE_SCALE = 0.68; // no smaller at first: the rest is moved into view

function fitted(drawing: Drawing, width: number, height: number, legible: boolean): Camera {
  const whole = Math.min(width / drawing.width, height / drawing.height, 1.15);
  const scale = legible ? Math.max(whole, LEGIBLE_SCALE) : Math.max(whole, LEAST_SCALE);
  // In the middle, but with its beginning in sight.
  return {
    scale,
    x: Math.min(0, (drawing.width - width / scale) / 2),
    y: Math.min(0, (drawing.height - height / scale) / 2),
  };
}

// The drawing, moved by dragging, pinching, Ctrl and the wheel, the buttons, or the keys + - 0 and the arrows.
function Picture({ structure, view }: { structure: Structure; view: View }) {
  const frame = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [camera, setCamera] = useState<Camera>();
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const dragged = useRef(false);

  useEffect(() => {
    const element = frame.current;
    if (element === null) {
      return undefined;
    }
    const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const downwards = size.width > 0 && size.width < 700;
  const form = structure.nodes.map((node) => `${node.kind}${node.name}`).join() + structure.edges.length;
  const drawing = useMemo(
    () => draw(structure, downwards, (link) => widthOf(portNames(structure, link), PLAIN)),
    [form, downwards],
  );
  const ratio = drawing.height / Math.max(1, drawing.width);
  const height = downwards ? 460 : Math.min(560, Math.max(260, Math.round(size.width * ratio)));
  useEffect(() => {
    if (size.width > 0) {
      setCamera(fitted(drawing, size.width, size.height, true));
    }
  }, [drawing, size.width, size.height]);

  const shown = camera ?? { x: 0, y: 0, scale: 1 };
  const zoom = (factor: number, atX = size.width / 2, atY = size.height / 2): void => {
    setCamera((last = shown) => {
      const scale = Math.min(4, Math.max(LEAST_SCALE, last.scale * factor));
      return { scale, x: last.x + atX / last.scale - atX / scale, y: last.y + atY / last.scale - atY / scale };
    });
  };
  const pan = (dx: number, dy: number): void =>
    setCamera((last = shown) => ({ ...last, x: last.x - dx / last.scale, y: last.y - dy / last.scale }));
  const show = (): void => setCamera(fitted(drawing, size.width, size.height, false));

  useEffect(() => {
    const element = frame.current;
    const wheel = (event: WheelEvent): void => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(Math.exp(-event.deltaY / 200), event.offsetX, event.offsetY);
      }
    };
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  });

  const keys: Record<string, () => void> = {
    "+": () => zoom(1.25),
    "=": () => zoom(1.25),
    "-": () => zoom(0.8),
    "0": show,
    ArrowLeft: () => pan(60, 0),
    ArrowRight: () => pan(-60, 0),
    ArrowUp: () => pan(0, 60),
    ArrowDown: () => pan(0, -60),
  };
  const move = (event: PointerEvent): void => {
    const before = pointers.current.get(event.pointerId);
    if (before === undefined) {
      return;
    }
    const now = { x: event.clientX, y: event.clientY };
    const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1];
    if (other === undefined) {
      pan(now.x - before.x, now.y - before.y);
    } else {
      const box = frame.current?.getBoundingClientRect();
      const apart = (point: { x: number; y: number }): number => Math.hypot(point.x - other.x, point.y - other.y);
      zoom(apart(now) / Math.max(1, apart(before)), other.x - (box?.left ?? 0), other.y - (box?.top ?? 0));
    }
    if (Math.hypot(now.x - before.x, now.y - before.y) > 2) {
      dragged.current = true;
    }
    pointers.current.set(event.pointerId, now);
  };
  const release = (event: PointerEvent): void => {
    pointers.current.delete(event.pointerId);
  };
  const most = Math.max(0, ...view.edges);
  return (
    <div class="picture">
      <div
        ref={frame}
        class="frame"
        style={{ height: `${height}px` }}
        tabIndex={0}
        role="group"
        aria-label="Drawing; plus and minus zoom, the arrows move, 0 shows all"
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (act !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
            event.preventDefault();
            act();
          }
        }}
        onPointerDown={(event) => {
          dragged.current = false;
          pointers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
        }}
        onPointerMove={move}
        onPointerUp={release}
        onPointerCancel={release}
        onPointerLeave={release}
        onDragStart={(event) => event.preventDefault()}
        onClickCapture={(event) => {
          if (dragged.current) {
            event.preventDefault();
            event.stopPropagation();
          }
        }}
      >
        {camera !== undefined && (
          <svg
            width={size.width}
            height={height}
            viewBox={`${shown.x} ${shown.y} ${Math.max(1, size.width / shown.scale)} ${Math.max(1, height / shown.scale)}`}
          >
            <defs>
              <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">
                <path d="M0,0.5L8,4L0,7.5z" />
              </marker>
            </defs>
            {drawing.links.map((link) => (
              <LinkShape key={`${link.from} ${link.to}`} link={link} structure={structure} view={view} most={most} />
            ))}
            {drawing.boxes.map((box) => {
              const each = view.nodes[box.id];
              if (each === undefined) {
                return null;
              }
              return isEnd(each.node) ? (
                <EndShape key={box.id} box={box} each={each} />
              ) : (
                <NodeShape key={box.id} box={box} each={each} view={view} />
              );
            })}
          </svg>
        )}
      </div>
      <div class="zoom">
        <button type="button" class="small" aria-label="Zoom in" onClick={() => zoom(1.25)}>
          +
        </button>
        <button type="button" class="small" aria-label="Zoom out" onClick={() => zoom(0.8)}>
          −
        </button>
        <button type="button" class="small" onClick={show}>
          All
        </button>
      </div>
    </div>
  );
}

function Tables({ structure, view }: { structure: Structure; view: View }) {
  const name = (id: number): string => structure.nodes[id]?.name || (structure.nodes[id]?.kind ?? "");
  const much = view.recent ? "Rate" : "Executions";
  return (
    <div class="columns">
      <section class="card" aria-labelledby="nodes">
        <h2 id="nodes">Nodes</h2>
        <div class="scroll" tabIndex={0} role="group" aria-labelledby="nodes">
          <table class="nodes">
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col">Runs</th>
                <th scope="col" class="number">
                  {much}
                </th>
                <th scope="col" class="number">
                  Takes
                </th>
                <th scope="col" class="number">
                  Queue
                </th>
                <th scope="col" class="number">
                  In flight
                </th>
                <th scope="col" class="number">
                  Failed
                </th>
                <th scope="col" class="number">
                  Share
                </th>
              </tr>
            </thead>
            <tbody>
              {view.nodes
                .filter(({ node }) => !isEnd(node))
                .map((each) => (
                  <tr key={each.node.name}>
                    <th scope="row">{each.href === undefined ? each.node.name : <a href={each.href}>{each.node.name}</a>}</th>
                    <td>
                      <span class="muted">{KINDS[each.node.kind]}</span> {each.node.runs}
                    </td>
                    <td class="number">{amount(view, each.rate)}</td>
                    <td class="number">{microseconds(each.meanUs)}</td>
                    <td class="number">{microseconds(each.queueUs)}</td>
                    <td class="number">{count(each.inFlight)}</td>
                    <td class={each.failed > 0 ? "number warn" : "number"}>{count(each.failed)}</td>
                    <td class="number">
                      {each.hottest && <span title="slowest">▲ </span>}
                      {percent(each.share)}
                    </td>
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      </section>
      <section class="card" aria-labelledby="edges">
        <h2 id="edges">Edges</h2>
        <div class="scroll" tabIndex={0} role="group" aria-labelledby="edges">
          <table>
            <thead>
              <tr>
                <th scope="col">From</th>
                <th scope="col">To</th>
                <th scope="col" class="number">
                  Passed
                </th>
              </tr>
            </thead>
            <tbody>
              {structure.edges.map((edge, id) => (
                <tr key={id}>
                  <td>
                    {name(edge.from)} <span class="muted">{edge.from_port}</span>
                  </td>
                  <td>
                    {name(edge.to)} <span class="muted">{edge.to_port}</span>
                  </td>
                  <td class="number">{amount(view, view.edges[id] ?? 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </div>
  );
}

export function StructureTab({ model, nowMs }: { model: ModelDetail; nowMs: number }) {
  const { models = [] } = useStore();
  const [since, setSince] = useState<"recent" | "load">("recent");
  const looks = useRef(new Window<Structure>());
  const last = useRef<Structure | null>(null);
  const { structure } = model;
  if (structure === null) {
    return <Empty>{model.kind === "model" ? "A model has no parts." : "It has no parts while it is not ready."}</Empty>;
  }
  if (structure !== last.current) {
    if (last.current !== null && !sameParts(last.current, structure)) {
      looks.current = new Window();
    }
    last.current = structure;
    looks.current.add(nowMs, structure);
  }
  const span = looks.current.span();
  const quiet = span === undefined || span.first.nodes.every((node, id) => node.ended === span.last.nodes[id]?.ended);
  const runs = structure.nodes.some((node) => node.started > node.ended);
  const why =
    span === undefined
      ? "The last seconds are being measured"
      : runs
        ? "What runs did not end in the last seconds"
        : "Nothing ran in the last seconds";
  // Where nothing ran in the last seconds, what ran before is worth more than zeros.
  const before = since === "recent" && span !== undefined && !quiet ? span : undefined;
  const view = viewOf(structure, before, models);
  return (
    <>
      <section class="card" aria-label="Drawing">
        <div class="title">
          <fieldset class="switch">
            <legend class="unseen">Time</legend>
            <label>
              <input type="radio" name="since" checked={since === "recent"} onChange={() => setSince("recent")} />
              <span>last 10 s</span>
            </label>
            <label>
              <input type="radio" name="since" checked={since === "load"} onChange={() => setSince("load")} />
              <span>since it was loaded</span>
            </label>
          </fieldset>
          <span class="muted">
            {since === "recent" && !view.recent && `${why}: shown since it was loaded. `}
            Percent: the share of the time of all nodes.
          </span>
        </div>
        <Picture structure={structure} view={view} />
      </section>
      <Tables structure={structure} view={view} />
    </>
  );
}
