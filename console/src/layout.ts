// Where the nodes and edges of a drawing lie.

import { Graph, layout as place } from "@dagrejs/dagre";

import type { Structure } from "./types";

export interface Box {
  id: number;
  x: number; // of its middle
  y: number;
  width: number;
  height: number;
}

// All edges between two nodes are drawn as one.
export interface Link {
  from: number;
  to: number;
  edges: number[]; // indexes into the structure's edges
  points: { x: number; y: number }[];
  label: { x: number; y: number; width: number };
}

export interface Drawing {
  width: number;
  height: number;
  boxes: Box[];
  links: Link[];
}

const NODE = { width: 192, height: 92 };
const NARROW_NODE = { width: 176, height: 92 };
const END = { width: 110, height: 40 };
const LABEL = { width: 84, height: 34 };
const WIDEST_LABEL = 280;

// `labelWidth`: of the text that stands at a link, as many pixels as it needs.
export function draw(structure: Structure, downwards: boolean, labelWidth: (link: Link) => number): Drawing {
  const graph = new Graph({ multigraph: false });
  graph.setGraph({
    rankdir: downwards ? "TB" : "LR",
    nodesep: downwards ? 28 : 24,
    ranksep: downwards ? 26 : 12,
    marginx: 12,
    marginy: 12,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  structure.nodes.forEach((node, id) => {
    const size = node.kind === "request" || node.kind === "response" ? END : downwards ? NARROW_NODE : NODE;
    graph.setNode(String(id), { ...size });
  });
  const links = new Map<string, Link>();
  structure.edges.forEach((edge, index) => {
    const key = `${edge.from} ${edge.to}`;
    const link = links.get(key) ?? { from: edge.from, to: edge.to, edges: [], points: [], label: { x: 0, y: 0, width: 0 } };
    link.edges.push(index);
    links.set(key, link);
  });
  for (const link of links.values()) {
    link.label.width = Math.min(WIDEST_LABEL, Math.max(LABEL.width, Math.ceil(labelWidth(link))));
    graph.setEdge(String(link.from), String(link.to), { ...LABEL, width: link.label.width, labelpos: "c" });
  }
  place(graph);
  for (const link of links.values()) {
    const placed = graph.edge(String(link.from), String(link.to));
    link.points = placed?.points ?? [];
    link.label = { ...link.label, x: placed?.x ?? 0, y: placed?.y ?? 0 };
  }
  const { width = 0, height = 0 } = graph.graph();
  return {
    width,
    height,
    boxes: structure.nodes.map((_node, id) => {
      const box = graph.node(String(id));
      return { id, x: box.x ?? 0, y: box.y ?? 0, width: box.width ?? 0, height: box.height ?? 0 };
    }),
    links: [...links.values()],
  };
}

// A smooth path through the points: straight to the middle of each two, curved around the points between.
export function pathThrough(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (first === undefined) {
    return "";
  }
  let path = `M${first.x},${first.y}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    path +=
      next === undefined
        ? `L${point.x},${point.y}`
        : `Q${point.x},${point.y} ${(point.x + next.x) / 2},${(point.y + next.y) / 2}`;
  });
  return path;
}
