// A form made from a model's metadata: a request, and what comes back.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { ApiError, call, modelPath, storedToken } from "../api";
import { microseconds, plural } from "../format";
import { CopyButton, Empty } from "../parts";
import { useStore } from "../store";
import {
  DATATYPES,
  decodeImage,
  elementsOf,
  events,
  filled,
  firstShape,
  generateRequest,
  imageElements,
  imageForm,
  inferRequest,
  isImageFile,
  parameterValue,
  parseExactly,
  parseShape,
  pictureOf,
  readInferResponse,
  readInput,
  type ImageForm,
  type InferRequest,
  type InferResponse,
  type Input,
  type Normalisation,
  type Output,
  type Parameters,
  type Pixels,
} from "../tensors";
import type { ModelDetail, Overview, TensorMetadata } from "../types";
import { Chat, useChat } from "./chat";

const MOST_ELEMENTS = 100_000; // that the form writes by itself

function inputOf(tensor: TensorMetadata): Input {
  // A graph's metadata has neither datatypes nor shapes: text is a guess that can be changed.
  const known = (DATATYPES as readonly string[]).includes(tensor.datatype);
  const datatype = known ? tensor.datatype : "BYTES";
  const shape = known ? firstShape(tensor.shape) : [1];
  const text = datatype === "BYTES" || elementsOf(shape) > MOST_ELEMENTS ? "" : filled(datatype, shape, "zeros");
  return { name: tensor.name, datatype, shape: shape.join(", "), text, left: tensor.optional === true };
}

// ---- one input -----------------------------------------------------------------------------------------------------

function Canvas({ pixels, label }: { pixels: Pixels; label: string }) {
  const element = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const data = new ImageData(new Uint8ClampedArray(pixels.rgba), pixels.width, pixels.height);
    element.current?.getContext("2d")?.putImageData(data, 0, 0);
  }, [pixels]);
  return <canvas ref={element} class="image" width={pixels.width} height={pixels.height} role="img" aria-label={label} />;
}

const NORMALISATIONS: { text: string; how: Normalisation }[] = [
  { text: "0 … 255", how: { mean: 0, scale: 1, bgr: false } },
  { text: "0 … 1", how: { mean: 0, scale: 255, bgr: false } },
  { text: "−1 … 1", how: { mean: 127.5, scale: 127.5, bgr: false } },
  { text: "0 … 255, blue first", how: { mean: 0, scale: 1, bgr: true } },
  { text: "0 … 1, blue first", how: { mean: 0, scale: 255, bgr: true } },
];

function ImageChoice({ input, form, onChange }: { input: Input; form: ImageForm; onChange: (input: Input) => void }) {
  const [pixels, setPixels] = useState<Pixels>();
  const [choice, setChoice] = useState(0);
  const [failure, setFailure] = useState("");
  const id = `image-${input.name}`;

  const write = (image: Pixels, index: number): void => {
    const how = NORMALISATIONS[index]?.how ?? { mean: 0, scale: 1, bgr: false };
    const sizes =
      form.layout === "NHWC" ? [image.height, image.width, form.channels] : [form.channels, image.height, image.width];
    const rank = parseShape(input.shape).length;
    const shape = rank === 4 ? [1, ...sizes] : sizes;
    onChange({ ...input, shape: shape.join(", "), text: imageElements(image, form, how, input.datatype) });
  };
  const take = async (file: File | undefined): Promise<void> => {
    if (file === undefined) {
      return;
    }
    try {
      const image = await decodeImage(file, form.height, form.width);
      setPixels(image);
      setFailure("");
      write(image, choice);
    } catch {
      setFailure(`${file.name} is no image that the browser can decode`);
    }
  };
  return (
    <div class="row">
      <label for={id}>from an image</label>
      <input id={id} type="file" accept="image/*" onChange={(event) => void take(event.currentTarget.files?.[0])} />
      <label for={`${id}-how`}>values</label>
      <select
        id={`${id}-how`}
        value={choice}
        onChange={(event) => {
          const index = Number(event.currentTarget.value);
          setChoice(index);
          if (pixels !== undefined) {
            write(pixels, index);
          }
        }}
      >
        {NORMALISATIONS.map((each, index) => (
          <option key={index} value={index}>
            {each.text}
          </option>
        ))}
      </select>
      <span class="muted">{form.layout}</span>
      {pixels !== undefined && <Canvas pixels={pixels} label="The image as it is sent" />}
      {failure !== "" && <span class="warn">{failure}</span>}
    </div>
  );
}

function BytesFile({ input, onChange }: { input: Input; onChange: (input: Input) => void }) {
  const id = `file-${input.name}`;
  const [as, setAs] = useState<"bytes" | "base64">("bytes");
  const element = useRef<HTMLInputElement>(null);
  const take = async (file: File | undefined, form: "bytes" | "base64"): Promise<void> => {
    const { file: _file, ...rest } = input;
    if (file === undefined) {
      onChange(rest);
      return;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (form === "bytes") {
      onChange({ ...rest, file: { name: file.name, bytes }, shape: input.shape === "" ? "1" : input.shape });
    } else {
      let binary = "";
      bytes.forEach((byte) => (binary += String.fromCharCode(byte)));
      onChange({ ...rest, text: btoa(binary) });
    }
  };
  return (
    <div class="row">
      <label for={id}>from a file</label>
      <input
        ref={element}
        id={id}
        type="file"
        onChange={(event) => void take(event.currentTarget.files?.[0], as)}
      />
      <label for={`${id}-as`}>as</label>
      <select
        id={`${id}-as`}
        value={as}
        onChange={(event) => {
          const form = event.currentTarget.value === "base64" ? "base64" : "bytes";
          setAs(form);
          void take(element.current?.files?.[0], form);
        }}
      >
        <option value="bytes">its bytes</option>
        <option value="base64">base64 text</option>
      </select>
    </div>
  );
}

function InputFields(properties: {
  tensor: TensorMetadata;
  input: Input;
  onChange: (input: Input) => void;
  failure: string;
}) {
  const { tensor, input, onChange, failure } = properties;
  const id = `input-${tensor.name}`;
  const form = input.datatype !== "BYTES" && input.datatype !== "BOOL" ? imageForm(tensor.shape) : undefined;
  const fill = (how: "zeros" | "count" | "random"): void => {
    try {
      const shape = parseShape(input.shape);
      if (elementsOf(shape) <= MOST_ELEMENTS) {
        onChange({ ...input, text: filled(input.datatype, shape, how) });
      }
    } catch {
      // The shape's own message is shown when the request is sent.
    }
  };
  const setDatatype = (datatype: string): void => {
    const { file: _file, ...rest } = input;
    if (datatype === "BYTES") {
      onChange({ ...rest, datatype, shape: tensor.datatype === "BYTES" ? input.shape : "1", text: "" });
    } else {
      onChange({ ...rest, datatype });
    }
  };
  return (
    <fieldset class="input">
      <legend>
        {tensor.name} <span class="muted">[{tensor.shape.join(", ")}]</span>
      </legend>
      {tensor.optional === true && (
        <label class="check">
          <input
            type="checkbox"
            checked={!input.left}
            onChange={(event) => onChange({ ...input, left: !event.currentTarget.checked })}
          />{" "}
          send it (it is optional)
        </label>
      )}
      {!input.left && (
        <>
          <div class="row">
            <label for={`${id}-type`}>datatype</label>
            <select id={`${id}-type`} value={input.datatype} onChange={(event) => setDatatype(event.currentTarget.value)}>
              {DATATYPES.map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
            </select>
            <label for={`${id}-shape`}>shape</label>
            <input
              id={`${id}-shape`}
              class="shape"
              value={input.shape}
              autocomplete="off"
              onInput={(event) => onChange({ ...input, shape: event.currentTarget.value })}
            />
            {input.datatype !== "BYTES" && (
              <span class="buttons">
                <button type="button" class="small" onClick={() => fill("zeros")}>
                  {input.datatype === "BOOL" ? "false" : "zeros"}
                </button>
                <button type="button" class="small" onClick={() => fill("count")}>
                  {input.datatype === "BOOL" ? "in turn" : "0, 1, 2 …"}
                </button>
                <button type="button" class="small" onClick={() => fill("random")}>
                  random
                </button>
              </span>
            )}
          </div>
          {input.file === undefined ? (
            <>
              <label class="unseen" for={id}>
                Data of {tensor.name}
              </label>
              <textarea
                id={id}
                rows={input.datatype === "BYTES" || input.text.length < 80 ? 2 : 4}
                spellcheck={false}
                placeholder={
                  input.datatype === "BYTES"
                    ? "text; one line or one string of a JSON list for each element"
                    : "numbers, between commas or blanks, or as JSON lists"
                }
                value={input.text}
                aria-invalid={failure !== ""}
                aria-describedby={failure === "" ? undefined : `${id}-failure`}
                onInput={(event) => onChange({ ...input, text: event.currentTarget.value })}
              />
            </>
          ) : (
            <p>
              <code>{input.file.name}</code>, {plural(input.file.bytes.length, "byte")}
            </p>
          )}
          {form !== undefined && <ImageChoice input={input} form={form} onChange={onChange} />}
          {input.datatype === "BYTES" && <BytesFile input={input} onChange={onChange} />}
          {failure !== "" && (
            <p id={`${id}-failure`} class="warn">
              {failure}
            </p>
          )}
        </>
      )}
    </fieldset>
  );
}

// ---- the answer ----------------------------------------------------------------------------------------------------

const SHOWN_ROWS = 50;
const SHOWN_COLUMNS = 20;

function textOf(value: unknown): string {
  if (value instanceof Uint8Array) {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(value);
    } catch {
      const hex = Array.from(value.subarray(0, 32), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
      return `${plural(value.length, "byte")}: ${hex}${value.length > 32 ? " …" : ""}`;
    }
  }
  if (typeof value === "number" && !Number.isInteger(value)) {
    return String(Number(value.toPrecision(7)));
  }
  return String(value);
}

function ImageFile({ bytes, label }: { bytes: Uint8Array; label: string }) {
  const [pixels, setPixels] = useState<Pixels>();
  useEffect(() => {
    decodeImage(new Blob([new Uint8Array(bytes)]), 0, 0).then(setPixels, () => setPixels(undefined));
  }, [bytes]);
  return pixels === undefined ? <code>{textOf(bytes)}</code> : <Canvas pixels={pixels} label={label} />;
}

function OutputTable({ output }: { output: Output }) {
  const { shape, data } = output;
  const columns = shape.length >= 2 ? (shape.at(-1) ?? 1) : 1;
  const rows = columns > 0 ? Math.ceil(data.length / columns) : 0;
  const largest =
    columns === 1 && data.length > 1 && data.every((value) => typeof value === "number")
      ? (data as number[]).reduce((most, value) => Math.max(most, Math.abs(value)), 0)
      : 0;
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label={`Values of ${output.name}`}>
        <table class="values">
          <tbody>
            {Array.from({ length: Math.min(rows, SHOWN_ROWS) }, (_row, row) => (
              <tr key={row}>
                <th scope="row">{row}</th>
                {data.slice(row * columns, row * columns + Math.min(columns, SHOWN_COLUMNS)).map((value, column) => (
                  <td key={column} class={typeof value === "number" ? "number" : ""}>
                    {value instanceof Uint8Array && isImageFile(value) ? (
                      <ImageFile bytes={value} label={`${output.name}, element ${row}`} />
                    ) : (
                      textOf(value)
                    )}
                  </td>
                ))}
                {columns > SHOWN_COLUMNS && <td class="muted">…</td>}
                {largest > 0 && (
                  <td class="bar-cell" aria-hidden="true">
                    <span class="track">
                      <span style={{ width: `${(100 * Math.abs(Number(data[row]))) / largest}%` }} />
                    </span>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(rows > SHOWN_ROWS || columns > SHOWN_COLUMNS) && (
        <p class="muted">
          The first {Math.min(rows, SHOWN_ROWS)} of {plural(rows, "row")}
          {columns > SHOWN_COLUMNS && `, ${SHOWN_COLUMNS} of ${columns} columns`}.
        </p>
      )}
    </>
  );
}

// Bytes that are text, as Python nodes of graphs send it; undefined where they are none.
function bytesAsText({ datatype, shape, data }: Output): string | undefined {
  if (datatype !== "UINT8" || shape.length !== 1 || data.length === 0) {
    return undefined;
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(data.map(Number)));
    return /[\0-\x08\x0e-\x1f]/.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function OutputView({ output }: { output: Output }) {
  const picture = useMemo(() => pictureOf(output), [output]);
  const text = bytesAsText(output);
  const single = output.data.length === 1 ? output.data[0] : undefined;
  const plain = single !== undefined && !(single instanceof Uint8Array && isImageFile(single));
  return (
    <div class="output">
      <h3>
        {output.name}{" "}
        <span class="muted">
          {output.datatype} [{output.shape.join(", ")}]
        </span>
      </h3>
      {picture !== undefined && <Canvas pixels={picture} label={`${output.name} as an image`} />}
      {text !== undefined && (
        <>
          <p class="muted">as text</p>
          <pre class="answer">{text}</pre>
        </>
      )}
      {output.data.length === 0 ? (
        <p class="muted">no elements</p>
      ) : plain ? (
        <pre class="answer">{textOf(single)}</pre>
      ) : (
        <OutputTable output={output} />
      )}
    </div>
  );
}

// ---- a stream ------------------------------------------------------------------------------------------------------

interface StreamState {
  events: Record<string, unknown>[];
  firstMs: number | undefined;
}

const HEADS = new Set(["model_name", "model_version", "id"]);

// Texts of a stream: put together where blanks lie between them, as tokens are; else one on each line. The reader may choose.
function StreamTexts({ name, texts, running }: { name: string; texts: string[]; running: boolean }) {
  const [choice, setChoice] = useState<boolean>();
  const together = choice ?? texts.some((text) => /^\s|\s$/.test(text));
  return (
    <>
      {texts.length > 1 && (
        <fieldset class="switch">
          <legend class="unseen">Texts of {name}</legend>
          <label>
            <input type="radio" name={`texts-${name}`} checked={together} onChange={() => setChoice(true)} />
            <span>put together</span>
          </label>
          <label>
            <input type="radio" name={`texts-${name}`} checked={!together} onChange={() => setChoice(false)} />
            <span>one a line</span>
          </label>
        </fieldset>
      )}
      <pre class="answer stream">
        {texts.map((text, index) => (
          <span key={index} class="token">
            {index > 0 && !together ? `\n${text}` : text}
          </span>
        ))}
        {running && <span class="caret" aria-hidden="true" />}
      </pre>
    </>
  );
}

// Each output of the events; values that are no texts are listed.
function StreamView({ stream, running }: { stream: StreamState; running: boolean }) {
  const outputs = new Map<string, unknown[]>();
  for (const event of stream.events) {
    for (const [name, value] of Object.entries(event)) {
      if (!HEADS.has(name)) {
        outputs.set(name, [...(outputs.get(name) ?? []), ...(Array.isArray(value) ? (value as unknown[]) : [value])]);
      }
    }
  }
  return (
    <div aria-busy={running}>
      {[...outputs].map(([name, values]) => (
        <div class="output" key={name}>
          <h3>
            {name} <span class="muted">{plural(values.length, "value")}</span>
          </h3>
          {values.every((value) => typeof value === "string") ? (
            <StreamTexts name={name} texts={values as string[]} running={running} />
          ) : (
            <pre class="answer">{values.map((value) => (typeof value === "object" ? JSON.stringify(value) : textOf(value))).join("  ")}</pre>
          )}
        </div>
      ))}
    </div>
  );
}

// ---- the whole -----------------------------------------------------------------------------------------------------

type Answer =
  | { kind: "response"; response: InferResponse; tookMs: number }
  | { kind: "stream"; stream: StreamState; tookMs: number; running: boolean; failure: string }
  | { kind: "failure"; text: string };

// A word of a shell.
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function octal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}

// Where clients ask for the model: the port of HTTP, unless something stands between the server and this page that may have changed ports.
function originOfModels({ http, metrics, admin }: Overview["server"]["addresses"]): string {
  const portOf = (address = ""): string => address.slice(address.lastIndexOf(":") + 1);
  if (http === undefined || http.startsWith("unix:") || location.port === "" || ![portOf(metrics), portOf(admin)].includes(location.port)) {
    return location.origin;
  }
  const host = http.slice(0, http.lastIndexOf(":"));
  const here = host === "127.0.0.1" || host === "[::1]"; // also said by a port of all addresses
  return `${location.protocol}//${here ? location.hostname : host}:${portOf(http)}`;
}

export function curlOf(url: string, request: InferRequest, stream: boolean, token: boolean): string {
  const head = `curl${stream ? " -N" : ""} ${quoted(url)}${token ? ' -H "Authorization: Bearer $TOKEN"' : ""}`;
  if (request.raw.length === 0) {
    return `${head} -d ${quoted(request.json)}`;
  }
  const length = new TextEncoder().encode(request.json).length;
  const parts = request.raw.map(
    ({ bytes, file }) => `printf ${quoted(octal(bytes))};${file === undefined ? "" : ` cat ${quoted(file.name)};`}`,
  );
  return (
    `(printf %s ${quoted(request.json)}; ${parts.join(" ")}) | ${head} -o answer.bin ` +
    `-H 'Content-Type: application/octet-stream' -H 'Inference-Header-Content-Length: ${length}' --data-binary @-`
  );
}

function bodyOf({ json, raw }: InferRequest): { body: BodyInit; headers: Record<string, string> } {
  if (raw.length === 0) {
    return { body: json, headers: { "Content-Type": "application/json" } };
  }
  const head = new TextEncoder().encode(json);
  const parts = raw.flatMap(({ bytes, file }) => (file === undefined ? [bytes] : [bytes, file.bytes]));
  return {
    body: new Blob([head, ...parts].map((part) => new Uint8Array(part))),
    headers: {
      "Content-Type": "application/octet-stream",
      "Inference-Header-Content-Length": String(head.length),
    },
  };
}

interface SequenceFields {
  id: string;
  start: boolean;
  end: boolean;
}

function parametersOf(text: string, sequence: SequenceFields): Parameters {
  const parameters: Parameters = new Map();
  for (const line of text.split("\n").filter((each) => each.trim() !== "")) {
    const at = line.indexOf("=");
    if (at <= 0) {
      throw new Error(`parameters: NAME=VALUE was expected in each line, got "${line}"`);
    }
    parameters.set(line.slice(0, at).trim(), parameterValue(line.slice(at + 1)));
  }
  if (sequence.id.trim() !== "") {
    parameters.set("sequence_id", parameterValue(sequence.id));
    parameters.set("sequence_start", String(sequence.start));
    parameters.set("sequence_end", String(sequence.end));
  }
  return parameters;
}

export function TryTab({ model }: { model: ModelDetail }) {
  const { may } = useStore();
  const served = useChat(model, may?.infer ?? false);
  const [chat, setChat] = useState(true);
  if (served === undefined) {
    return <Empty>Loading…</Empty>;
  }
  if (!served) {
    return <RequestTab model={model} />;
  }
  return (
    <>
      <div class="row">
        <fieldset class="switch">
          <legend class="unseen">How to ask</legend>
          <label>
            <input type="radio" name="ask" checked={chat} onChange={() => setChat(true)} />
            <span>a chat</span>
          </label>
          <label>
            <input type="radio" name="ask" checked={!chat} onChange={() => setChat(false)} />
            <span>tensors</span>
          </label>
        </fieldset>
      </div>
      {chat ? <Chat model={model} /> : <RequestTab model={model} />}
    </>
  );
}

function RequestTab({ model }: { model: ModelDetail }) {
  const { may: mayDo, overview } = useStore();
  const [inputs, setInputs] = useState(() => model.inputs.map(inputOf));
  const [stream, setStream] = useState(model.decoupled && model.kind !== "graph");
  const [parameters, setParameters] = useState("");
  const [sequence, setSequence] = useState<SequenceFields>({ id: "", start: true, end: false });
  const [failures, setFailures] = useState<Record<string, string>>({});
  const [answer, setAnswer] = useState<Answer>();
  const [running, setRunning] = useState<AbortController>();
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const address = `${modelPath(model.name, model.version)}/${stream ? "generate_stream" : "infer"}`;
  const build = (checked: (failures: Record<string, string>) => void): InferRequest | undefined => {
    const found: Record<string, string> = {};
    const tensors = inputs.flatMap((input) => {
      if (input.left) {
        return [];
      }
      try {
        return [readInput(input)];
      } catch (error) {
        found[input.name] = String(error instanceof Error ? error.message : error).replace(`${input.name}: `, "");
        return [];
      }
    });
    let request: InferRequest | undefined;
    try {
      const given = parametersOf(parameters, sequence);
      if (stream) {
        request = { json: generateRequest(tensors, given), raw: [] };
      } else {
        const needsBytes = (datatype: string): boolean => ["BYTES", "FP16", "BF16"].includes(datatype);
        const outputs = model.outputs.some((each) => needsBytes(each.datatype))
          ? model.outputs.map(({ name, datatype }) => ({ name, binary: needsBytes(datatype) }))
          : [];
        request = inferRequest(tensors, given, outputs);
      }
    } catch (error) {
      found[""] = error instanceof Error ? error.message : String(error);
    }
    checked(found);
    return Object.keys(found).length > 0 ? undefined : request;
  };

  const origin = originOfModels(overview?.server.addresses ?? {});
  // The command of what is in the form now, without the wish for binary outputs, which a terminal does not show.
  const command = useMemo(() => {
    const request = build(() => undefined);
    if (request === undefined) {
      return "";
    }
    const plain = { ...request, json: request.json.replace(/,"outputs":\[[^\]]*\]\}$/, "}") };
    return curlOf(origin + address, plain, stream, storedToken() !== "");
  }, [inputs, stream, parameters, sequence, origin, address]);

  const receive = async (request: InferRequest, controller: AbortController): Promise<void> => {
    const begun = performance.now();
    const response = await call(address, { method: "POST", ...bodyOf(request), signal: controller.signal });
    if (!stream) {
      const read = await readInferResponse(response);
      setAnswer({ kind: "response", response: read, tookMs: performance.now() - begun });
      return;
    }
    const state: StreamState = { events: [], firstMs: undefined };
    let failure = "";
    const show = (ended: boolean): void =>
      setAnswer({
        kind: "stream",
        stream: { ...state, events: [...state.events] },
        tookMs: performance.now() - begun,
        running: !ended,
        failure,
      });
    show(false);
    try {
      for await (const data of events(response)) {
        state.firstMs ??= performance.now() - begun;
        const value = parseExactly(data) as Record<string, unknown>;
        if (typeof value["error"] === "string" && Object.keys(value).length === 1) {
          failure = value["error"];
        } else {
          state.events.push(value);
        }
        show(false);
      }
    } catch (error) {
      failure = controller.signal.aborted ? "stopped" : String(error instanceof Error ? error.message : error);
    }
    show(true);
  };

  const send = async (): Promise<void> => {
    const request = build(setFailures);
    if (request === undefined) {
      return;
    }
    const controller = new AbortController();
    abort.current = controller;
    setRunning(controller);
    try {
      await receive(request, controller);
    } catch (error) {
      if (controller.signal.aborted) {
        setAnswer({ kind: "failure", text: "The request was cancelled." });
      } else {
        const status = error instanceof ApiError && error.status > 0 ? `${error.status}: ` : "";
        setAnswer({ kind: "failure", text: status + (error instanceof Error ? error.message : String(error)) });
      }
    }
    setRunning(undefined);
  };

  const may = mayDo?.infer ?? false;
  const ready = model.state === "READY";
  const graph = model.kind === "graph"; // its inputs have no schema, which flat JSON needs
  return (
    <div class="columns try">
      <form
        class="card"
        aria-label={`A request to ${model.name}`}
        onSubmit={(event) => {
          event.preventDefault();
          if (running === undefined) {
            void send();
          }
        }}
      >
        <h2>Request</h2>
        {model.inputs.map((tensor, index) => {
          const input = inputs[index];
          return input === undefined ? null : (
            <InputFields
              key={tensor.name}
              tensor={tensor}
              input={input}
              failure={failures[tensor.name] ?? ""}
              onChange={(changed) => setInputs((last) => last.map((each, at) => (at === index ? changed : each)))}
            />
          );
        })}
        <details open={model.stateful}>
          <summary>Sequence and parameters</summary>
          <div class="row">
            <label for="sequence">sequence id</label>
            <input
              id="sequence"
              class="shape"
              value={sequence.id}
              autocomplete="off"
              onInput={(event) => setSequence({ ...sequence, id: event.currentTarget.value })}
            />
            <label class="check">
              <input
                type="checkbox"
                checked={sequence.start}
                onChange={(event) => setSequence({ ...sequence, start: event.currentTarget.checked })}
              />{" "}
              start
            </label>
            <label class="check">
              <input
                type="checkbox"
                checked={sequence.end}
                onChange={(event) => setSequence({ ...sequence, end: event.currentTarget.checked })}
              />{" "}
              end
            </label>
          </div>
          <label for="parameters">parameters, NAME=VALUE in each line</label>
          <textarea
            id="parameters"
            rows={2}
            spellcheck={false}
            value={parameters}
            onInput={(event) => setParameters(event.currentTarget.value)}
          />
        </details>
        <fieldset class="switch">
          <legend class="unseen">Answers</legend>
          <label>
            <input type="radio" name="stream" checked={!stream} onChange={() => setStream(false)} />
            <span>one answer</span>
          </label>
          <label>
            <input
              type="radio"
              name="stream"
              checked={stream}
              disabled={graph}
              onChange={() => setStream(true)}
            />
            <span>a stream</span>
          </label>
        </fieldset>
        {graph && <p class="muted">A graph answers with a stream over gRPC only; here with what one run gives.</p>}
        {failures[""] !== undefined && <p class="warn">{failures[""]}</p>}
        <div class="row">
          <button type="submit" class="primary" disabled={!may || !ready || running !== undefined}>
            Send
          </button>
          {running !== undefined && (
            <button type="button" onClick={() => running.abort()}>
              Stop
            </button>
          )}
          {!may && <span class="muted">Requests are not allowed to you at this port.</span>}
          {may && !ready && <span class="muted">The model is not ready.</span>}
        </div>
        <details>
          <summary>The same with curl</summary>
          {command === "" ? (
            <p class="muted">When the form is complete.</p>
          ) : (
            <>
              <pre class="code wrap" tabIndex={0} role="group" aria-label="Command">
                {command}
              </pre>
              <CopyButton text={command}>Copy</CopyButton>
            </>
          )}
        </details>
      </form>
      <section class="card answer-card" aria-labelledby="answer" aria-live="polite">
        <h2 id="answer">Answer</h2>
        {answer === undefined && <p class="muted">It appears here.</p>}
        {answer?.kind === "failure" && (
          <p class="warn" role="alert">
            {answer.text}
          </p>
        )}
        {answer?.kind === "response" && (
          <>
            <p class="muted">
              in <b>{microseconds(answer.tookMs * 1000)}</b>
              {answer.response.version !== "" && `, version ${answer.response.version}`}
            </p>
            {answer.response.outputs.length === 0 && <p class="muted">The answer has no outputs.</p>}
            {answer.response.outputs.map((output) => (
              <OutputView key={output.name} output={output} />
            ))}
          </>
        )}
        {answer?.kind === "stream" && (
          <>
            <p class="muted">
              {plural(answer.stream.events.length, "answer")} in <b>{microseconds(answer.tookMs * 1000)}</b>
              {answer.stream.firstMs !== undefined && `, the first after ${microseconds(answer.stream.firstMs * 1000)}`}
            </p>
            <StreamView stream={answer.stream} running={answer.running} />
            {answer.failure !== "" && (
              <p class="warn" role="alert">
                {answer.failure}
              </p>
            )}
          </>
        )}
      </section>
    </div>
  );
}
