// Between what a user types and the tensors of a request, and between a response and what is shown.
//
// Numbers stay text on the way out, so that 64-bit integers keep all their digits.

export const DATATYPES = [
  "BOOL",
  "INT8",
  "INT16",
  "INT32",
  "INT64",
  "UINT8",
  "UINT16",
  "UINT32",
  "UINT64",
  "FP16",
  "BF16",
  "FP32",
  "FP64",
  "BYTES",
] as const;

export function isInteger(datatype: string): boolean {
  return /^U?INT/.test(datatype);
}

export function isFloat(datatype: string): boolean {
  return /^(FP|BF)/.test(datatype);
}

// One input as the form has it. `file` are the bytes of a BYTES tensor with one element.
export interface Input {
  name: string;
  datatype: string;
  shape: string;
  text: string;
  file?: { name: string; bytes: Uint8Array };
  left: boolean; // an optional one that is not sent
}

// One input, checked: its elements as JSON texts, or what JSON cannot say as bytes.
export interface Tensor {
  name: string;
  datatype: string;
  shape: number[];
  elements: string[];
  raw?: Raw;
}

// The bytes of a tensor in its binary form: behind each other `bytes` and the file, of which there may be none.
export interface Raw {
  bytes: Uint8Array;
  file?: { name: string; bytes: Uint8Array };
}

export function parseShape(text: string): number[] {
  const parts = text.replace(/[[\]()x×]/g, (sign) => (sign === "x" || sign === "×" ? "," : " ")).split(/[\s,]+/).filter(Boolean);
  const shape = parts.map(Number);
  if (shape.some((size) => !Number.isInteger(size) || size < 0)) {
    throw new Error(`shape: sizes of dimensions were expected, as 1, 3, 224, 224; got "${text.trim()}"`);
  }
  return shape;
}

export function elementsOf(shape: number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

// What the metadata says, with a size for each dimension that may be any.
export function firstShape(shape: number[]): number[] {
  return shape.map((size) => (size < 0 ? 1 : size));
}

const RANGES: Record<string, [bigint, bigint]> = Object.fromEntries(
  [8n, 16n, 32n, 64n].flatMap((bits) => [
    [`INT${bits}`, [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n]],
    [`UINT${bits}`, [0n, 2n ** bits - 1n]],
  ]),
) as Record<string, [bigint, bigint]>;

function number(word: string, datatype: string): string {
  if (isInteger(datatype)) {
    if (!/^[+-]?\d+$/.test(word)) {
      throw new Error(`an integer was expected, got "${word}"`);
    }
    const value = BigInt(word.replace("+", ""));
    const range = RANGES[datatype];
    if (range !== undefined && (value < range[0] || value > range[1])) {
      throw new Error(`${word} does not fit ${datatype}`);
    }
    return String(value);
  }
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(word)) {
    throw new Error(`a number was expected, got "${word}"`);
  }
  return JSON.stringify(Number(word));
}

function truth(word: string): string {
  const value = { true: "true", false: "false", "1": "true", "0": "false" }[word.toLowerCase()];
  if (value === undefined) {
    throw new Error(`true or false was expected, got "${word}"`);
  }
  return value;
}

// A JSON list of texts, or one text a line where there are several elements.
function texts(text: string, wanted: number): string[] {
  if (text.trim().startsWith("[")) {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      value = undefined;
    }
    if (Array.isArray(value)) {
      return (value as unknown[]).flat(Infinity).map((each) => JSON.stringify(typeof each === "string" ? each : JSON.stringify(each)));
    }
  }
  return (wanted === 1 ? [text] : text.split("\n")).map((line) => JSON.stringify(line));
}

// Throws Error with a text for people.
export function readInput(input: Input): Tensor {
  const { name, datatype } = input;
  try {
    const shape = parseShape(input.shape);
    const wanted = elementsOf(shape);
    let elements: string[];
    if (datatype === "BYTES") {
      if (input.file !== undefined) {
        if (wanted !== 1) {
          throw new Error(`a file is one element; the shape has ${wanted}`);
        }
        return { name, datatype, shape, elements: [], raw: { bytes: lengthBytes(input.file.bytes.length), file: input.file } };
      }
      elements = texts(input.text, wanted);
    } else {
      const words = input.text.split(/[\s,;[\]]+/).filter(Boolean);
      elements = words.map((word) => (datatype === "BOOL" ? truth(word) : number(word, datatype)));
    }
    if (elements.length !== wanted) {
      throw new Error(`the shape has ${wanted} element${wanted === 1 ? "" : "s"}, the data ${elements.length}`);
    }
    if (datatype === "FP16" || datatype === "BF16") {
      return { name, datatype, shape, elements, raw: { bytes: halves(elements.map(Number), datatype) } };
    }
    return { name, datatype, shape, elements };
  } catch (error) {
    throw new Error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

// ---- 16-bit numbers, which JSON of the protocol has no form for ----------------------------------------------------

function half(value: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  const bits = view.getUint32(0);
  const sign = (bits >>> 16) & 0x8000;
  const size = Math.abs(view.getFloat32(0));
  if (Number.isNaN(value)) {
    return 0x7e00;
  }
  if (size >= 65520) {
    return sign | 0x7c00;
  }
  // Multiples of the distance between neighbours, ties to even.
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size));
  const steps = size / 2 ** (exponent - 10);
  const floor = Math.floor(steps);
  const rest = steps - floor;
  const rounded = rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
  return sign | (size < 2 ** -14 ? rounded : ((exponent + 14) << 10) + rounded);
}

function brain(value: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  const bits = view.getUint32(0);
  return Number.isNaN(value) ? 0x7fc0 : ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

export function halves(values: number[], datatype: "FP16" | "BF16"): Uint8Array {
  const view = new DataView(new ArrayBuffer(values.length * 2));
  values.forEach((value, index) => view.setUint16(index * 2, datatype === "FP16" ? half(value) : brain(value), true));
  return new Uint8Array(view.buffer);
}

export function fromHalves(bytes: Uint8Array, datatype: "FP16" | "BF16"): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.length >> 1 }, (_each, index) => {
    const bits = view.getUint16(index * 2, true);
    if (datatype === "BF16") {
      const wide = new DataView(new ArrayBuffer(4));
      wide.setUint32(0, bits << 16);
      return wide.getFloat32(0);
    }
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) {
      return fraction === 0 ? sign * Infinity : NaN;
    }
    return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
  });
}

// Something to begin with.
export function filled(datatype: string, shape: number[], how: "zeros" | "count" | "random"): string {
  const size = elementsOf(shape);
  const value = (index: number): string => {
    if (datatype === "BOOL") {
      return String(how === "zeros" ? false : how === "count" ? index % 2 === 1 : Math.random() < 0.5);
    }
    if (how === "zeros") {
      return "0";
    }
    if (how === "count") {
      return String(datatype.endsWith("INT8") ? index % 128 : index);
    }
    return isInteger(datatype) ? String(Math.floor(Math.random() * 100)) : Math.random().toFixed(3);
  };
  return Array.from({ length: size }, (_each, index) => value(index)).join(", ");
}

// ---- requests ------------------------------------------------------------------------------------------------------

// Parameters as JSON texts by name: numbers and truths as they are, everything else as text.
export function parameterValue(text: string): string {
  const plain = text.trim();
  return /^(true|false|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?)$/.test(plain) ? plain : JSON.stringify(text);
}

export type Parameters = Map<string, string>;

function parametersJson(parameters: Parameters): string {
  return `{${[...parameters].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}

// The four bytes before an element of a BYTES tensor in its binary form.
export function lengthBytes(length: number): Uint8Array {
  return Uint8Array.of(length & 255, (length >> 8) & 255, (length >> 16) & 255, (length >>> 24) & 255);
}

export interface InferRequest {
  json: string;
  raw: Raw[]; // in the order of the inputs, behind the JSON
}

// POST .../infer; `outputs` asks for these outputs alone, `binary` of them as bytes.
export function inferRequest(
  tensors: Tensor[],
  parameters: Parameters,
  outputs: { name: string; binary: boolean }[],
): InferRequest {
  const raw: Raw[] = [];
  const inputs = tensors.map((tensor) => {
    const head = `"name":${JSON.stringify(tensor.name)},"datatype":"${tensor.datatype}","shape":[${tensor.shape.join(",")}]`;
    if (tensor.raw === undefined) {
      return `{${head},"data":[${tensor.elements.join(",")}]}`;
    }
    raw.push(tensor.raw);
    const size = tensor.raw.bytes.length + (tensor.raw.file?.bytes.length ?? 0);
    return `{${head},"parameters":{"binary_data_size":${size}}}`;
  });
  const parts = [`"inputs":[${inputs.join(",")}]`];
  if (parameters.size > 0) {
    parts.push(`"parameters":${parametersJson(parameters)}`);
  }
  if (outputs.length > 0) {
    const asked = outputs.map(
      ({ name, binary }) => `{"name":${JSON.stringify(name)}${binary ? ',"parameters":{"binary_data":true}' : ""}}`,
    );
    parts.push(`"outputs":[${asked.join(",")}]`);
  }
  return { json: `{${parts.join(",")}}`, raw };
}

// POST .../generate_stream: the inputs by name, one value or a flat list.
export function generateRequest(tensors: Tensor[], parameters: Parameters): string {
  const parts = tensors.map((tensor) => {
    if (tensor.raw?.file !== undefined) {
      throw new Error(`${tensor.name}: a file cannot be sent to a stream, only text`);
    }
    const value = tensor.elements.length === 1 ? tensor.elements[0] : `[${tensor.elements.join(",")}]`;
    return `${JSON.stringify(tensor.name)}:${value}`;
  });
  if (parameters.size > 0) {
    parts.push(`"parameters":${parametersJson(parameters)}`);
  }
  return `{${parts.join(",")}}`;
}

// ---- responses -----------------------------------------------------------------------------------------------------

export interface Output {
  name: string;
  datatype: string;
  shape: number[];
  data: unknown[]; // numbers, BigInts, booleans; of BYTES Uint8Array or text
}

export interface InferResponse {
  model: string;
  version: string;
  outputs: Output[];
}

// JSON whose integers keep their digits, where the browser hands them out.
export function parseExactly(text: string): unknown {
  const revive = function (_key: string, value: unknown, context?: { source?: string }): unknown {
    const source = context?.source;
    return typeof value === "number" && !Number.isSafeInteger(value) && source !== undefined && /^-?\d+$/.test(source)
      ? BigInt(source)
      : value;
  };
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

function bytesElements(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const result: Uint8Array[] = [];
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = view.getUint32(at, true);
    result.push(bytes.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return result;
}

export async function readInferResponse(response: Response): Promise<InferResponse> {
  const whole = new Uint8Array(await response.arrayBuffer());
  if (whole.length === 0) {
    return { model: "", version: "", outputs: [] };
  }
  const header = Number(response.headers.get("Inference-Header-Content-Length") ?? whole.length);
  const value = parseExactly(new TextDecoder().decode(whole.subarray(0, header))) as {
    model_name?: string;
    model_version?: string;
    outputs?: {
      name: string;
      datatype: string;
      shape: number[];
      data?: unknown[];
      parameters?: { binary_data_size?: number };
    }[];
  };
  let at = header;
  const outputs = (value.outputs ?? []).map(({ name, datatype, shape, data, parameters }): Output => {
    const size = parameters?.binary_data_size;
    if (size === undefined) {
      return { name, datatype, shape, data: (data ?? []).flat(Infinity) };
    }
    const bytes = whole.subarray(at, at + size);
    at += size;
    const decoded = datatype === "FP16" || datatype === "BF16" ? fromHalves(bytes, datatype) : bytesElements(bytes);
    return { name, datatype, shape, data: decoded };
  });
  return { model: value.model_name ?? "", version: value.model_version ?? "", outputs };
}

// The events of a stream of server-sent events, each one's data.
export async function* events(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) {
    return;
  }
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      rest += value;
      const parts = rest.split(/\r?\n\r?\n/);
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const data = part
          .split(/\r?\n/)
          .filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).replace(/^ /, ""));
        if (data.length > 0) {
          yield data.join("\n");
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

// ---- images --------------------------------------------------------------------------------------------------------

export interface ImageForm {
  layout: "NHWC" | "NCHW";
  channels: number;
  height: number; // 0: the picture's own
  width: number;
}

// How a shape can hold a picture: one of its dimensions is of 1 or 3 channels.
export function imageForm(shape: number[]): ImageForm | undefined {
  const isChannels = (size: number | undefined): size is number => size === 1 || size === 3;
  const free = (size: number | undefined): number => (size === undefined || size < 0 ? 0 : size);
  const sizes = shape.length === 4 && (shape[0] === 1 || shape[0] === -1) ? shape.slice(1) : shape;
  const [first, second, third] = sizes;
  if (sizes.length !== 3) {
    return undefined;
  }
  if (isChannels(first) && !(isChannels(third) && second === first)) {
    return { layout: "NCHW", channels: first, height: free(second), width: free(third) };
  }
  if (isChannels(third)) {
    return { layout: "NHWC", channels: third, height: free(first), width: free(second) };
  }
  return undefined;
}

export interface Normalisation {
  scale: number; // each byte of a channel becomes (byte - mean) / scale
  mean: number;
  bgr: boolean;
}

export interface Pixels {
  width: number;
  height: number;
  rgba: Uint8ClampedArray;
}

export async function decodeImage(file: Blob, height: number, width: number): Promise<Pixels> {
  const bitmap = await createImageBitmap(file);
  const canvas = document.createElement("canvas");
  canvas.width = width > 0 ? width : bitmap.width;
  canvas.height = height > 0 ? height : bitmap.height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) {
    throw new Error("the browser cannot decode images");
  }
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  return { width: canvas.width, height: canvas.height, rgba: data };
}

// The elements of a tensor, in the order of its layout.
export function imageElements(pixels: Pixels, form: ImageForm, how: Normalisation, datatype: string): string {
  const { width, height, rgba } = pixels;
  const size = width * height;
  const order = how.bgr ? [2, 1, 0] : [0, 1, 2];
  const channel = (pixel: number, index: number): number => {
    const at = pixel * 4;
    const byte =
      form.channels === 1
        ? 0.299 * (rgba[at] ?? 0) + 0.587 * (rgba[at + 1] ?? 0) + 0.114 * (rgba[at + 2] ?? 0)
        : (rgba[at + (order[index] ?? 0)] ?? 0);
    return (byte - how.mean) / how.scale;
  };
  const text = (value: number): string => (isFloat(datatype) ? String(Number(value.toFixed(5))) : String(Math.round(value)));
  const elements = new Array<string>(size * form.channels);
  for (let pixel = 0; pixel < size; ++pixel) {
    for (let index = 0; index < form.channels; ++index) {
      const at = form.layout === "NHWC" ? pixel * form.channels + index : index * size + pixel;
      elements[at] = text(channel(pixel, index));
    }
  }
  return elements.join(",");
}

// A numeric output that looks like a picture, as pixels: bytes as they are, numbers from 0 to 1 stretched.
export function pictureOf(output: Output): Pixels | undefined {
  const form = imageForm(output.shape);
  if (form === undefined || form.height < 8 || form.width < 8 || output.datatype === "BYTES" || output.datatype === "BOOL") {
    return undefined;
  }
  const values = output.data.map(Number);
  const most = values.reduce((largest, value) => Math.max(largest, value), 0);
  const factor = most <= 1 ? 255 : 1;
  const size = form.height * form.width;
  const rgba = new Uint8ClampedArray(size * 4);
  for (let pixel = 0; pixel < size; ++pixel) {
    for (let index = 0; index < 3; ++index) {
      const channel = form.channels === 1 ? 0 : index;
      const at = form.layout === "NHWC" ? pixel * form.channels + channel : channel * size + pixel;
      rgba[pixel * 4 + index] = (values[at] ?? 0) * factor;
    }
    rgba[pixel * 4 + 3] = 255;
  }
  return { width: form.width, height: form.height, rgba };
}

// Whether bytes are a file of an image, by how it begins.
export function isImageFile(bytes: Uint8Array): boolean {
  const starts = (...expected: number[]): boolean => expected.every((byte, index) => bytes[index] === byte);
  return (
    starts(0x89, 0x50, 0x4e, 0x47) || starts(0xff, 0xd8, 0xff) || starts(0x47, 0x49, 0x46, 0x38) || starts(0x42, 0x4d) ||
    (starts(0x52, 0x49, 0x46, 0x46) && bytes[8] === 0x57 && bytes[9] === 0x45)
  );
}
