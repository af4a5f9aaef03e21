// What the server answers at /console/api. Keys that are not named here are ignored. Of a version that does not serve, the
// server knows little: whole() and wholeDetail() give the rest.

export type State = "READY" | "LOADING" | "UNLOADING" | "UNAVAILABLE";
export type Kind = "model" | "ensemble" | "pipeline" | "graph";

export interface May {
  infer: boolean;
  manage: boolean;
  log: boolean;
  trace: boolean;
}

export interface Overview {
  server: {
    name: string;
    version: string;
    id: string;
    started_ms: number;
    now_ms: number;
    live: boolean;
    ready: boolean;
    draining: boolean;
    addresses: { http?: string; grpc?: string; metrics?: string; admin?: string };
  };
  may: May;
  manage_how: Models["manage_how"];
  fleet?: boolean;
  process: {
    pid: number;
    resident_bytes: number;
    proportional_bytes?: number;
    threads: number;
    descriptors: number;
    cpu_us: number;
  };
  machine: { cores: number; memory_bytes: number };
  connections: { http: number; grpc: number };
  client_memory: { used_bytes: number; budget_bytes: number };
  refused: { limit: string; count: number }[];
}

export interface ModelRow {
  name: string;
  version: string; // "" for one that was never loaded
  state: State;
  reason: string;
  kind: Kind;
  platform: string;
  origin: "triton" | "ovms";
  decoupled: boolean;
  stateful: boolean;
  last_inference_ms: number;
  requests: number;
  failures: number;
  rejected: number;
  canceled: number;
  rows: number;
  executions: number;
  pending: number;
  request_us: number;
  queue_us: number;
  compute_us: number;
  first_response_us?: number;
  instances: number;
  instances_ready: number;
  restarts: number;
  sequences?: number;
  memory_bytes?: number;
}

const NOTHING: Omit<ModelRow, "name" | "version" | "state" | "kind"> = {
  reason: "",
  platform: "",
  origin: "triton",
  decoupled: false,
  stateful: false,
  last_inference_ms: 0,
  requests: 0,
  failures: 0,
  rejected: 0,
  canceled: 0,
  rows: 0,
  executions: 0,
  pending: 0,
  request_us: 0,
  queue_us: 0,
  compute_us: 0,
  instances: 0,
  instances_ready: 0,
  restarts: 0,
};

type Sparse<T extends ModelRow> = Partial<T> & Pick<ModelRow, "name" | "version" | "state" | "kind">;
export type SparseRow = Sparse<ModelRow>;

// A model that keeps sequences counts them, also where none of its own state is known.
function hasSequences(row: Partial<ModelRow>): boolean {
  return row.stateful === true || row.sequences !== undefined;
}

export function whole(row: SparseRow): ModelRow {
  return { ...NOTHING, ...row, stateful: hasSequences(row) };
}

export interface Models {
  now_ms: number;
  may: May;
  manage_how: "load" | "reload" | "none";
  models: SparseRow[];
}

export interface TensorMetadata {
  name: string;
  datatype: string;
  shape: number[];
  optional?: boolean;
  labels?: number;
}

export interface Worker {
  name: string;
  pid: number;
  ready: boolean;
  reason: string;
  restarts: number;
  started_ms: number;
  executions: number;
  memory_bytes?: number;
}

export interface StructureNode {
  id: number;
  kind: "request" | "response" | "model" | "custom_node" | "calculator" | "python";
  name: string;
  runs: string;
  version: number;
  note: string;
  started: number;
  ended: number;
  failed: number;
  total_us: number;
}

export interface StructureEdge {
  from: number;
  to: number;
  from_port: string;
  to_port: string;
  passed: number;
}

export interface Structure {
  nodes: StructureNode[];
  edges: StructureEdge[];
}

export interface ModelDetail extends ModelRow {
  inputs: TensorMetadata[];
  outputs: TensorMetadata[];
  max_batch_size: number;
  uses: { name: string; version: string | number }[];
  used_by: string[];
  config: unknown;
  workers: Worker[];
  structure: Structure | null;
}

export function wholeDetail(detail: Sparse<ModelDetail>): ModelDetail {
  return {
    ...NOTHING,
    inputs: [],
    outputs: [],
    max_batch_size: 0,
    uses: [],
    used_by: [],
    config: null,
    workers: [],
    structure: null,
    ...detail,
    stateful: hasSequences(detail),
  };
}

export interface Sample {
  at_ms: number;
  requests: number;
  failures: number;
  request_us: number;
  queue_us: number;
  compute_us: number;
  executions: number;
  pending: number;
}

export interface History {
  step_ms: number;
  samples: Sample[];
}

export interface Sequences {
  total: number;
  sequences: { id: string; idle_ms?: number; age_ms?: number; requests?: number }[];
}

export type Level = "verbose" | "info" | "output" | "warning" | "error";

export interface LogLine {
  seq: number;
  at_ms: number;
  level: Level;
  model: string;
  text: string;
}

export interface Log {
  next: number;
  lost: number;
  lines: LogLine[];
}

export interface Span {
  name: string;
  parent: number; // index among the spans; -1: the request itself
  start_us: number;
  duration_us: number;
}

export interface Trace {
  id: string;
  model: string;
  version: string | number;
  request_id: string;
  start_ms: number;
  duration_us: number;
  spans: Span[];
}

export interface Traces {
  watched_s: number;
  traces: Trace[];
}

// A figure that is not known is null.
export interface FleetLoad {
  requests: number; // that succeeded
  failures: number;
  queue_ns: number;
  waiting: number | null;
  live_sequences: number | null;
}

export interface FleetReplica {
  endpoint: string;
  answered: boolean;
  // Where it has not:
  error?: string;
  // Where it has:
  server?: string;
  ready?: boolean;
  at_ms?: number; // when its counters were read
  started_ms?: number | null;
  no_metrics?: string; // why some figures are not known
  models?: { name: string; versions: { version: string; state: State | ""; reason: string }[]; load: FleetLoad }[];
}

export interface Fleet {
  replicas: FleetReplica[];
  models: {
    name: string;
    ready_versions: string[];
    ready_at: number; // of how many replicas
    differs: boolean;
    sequence_model: boolean;
    load: FleetLoad;
  }[];
  differences: string[]; // sentences
}
