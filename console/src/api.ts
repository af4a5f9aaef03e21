// Calls of the server that the page came from. The token that a user has typed lives as long as the tab.

const TOKEN = "braid-console-token";

// What the server answered in place of what was asked for. `status` is 0 when no answer came.
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(text);
    this.status = status;
  }
}

export function storedToken(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function storeToken(token: string): void {
  if (token === "") {
    sessionStorage.removeItem(TOKEN);
  } else {
    sessionStorage.setItem(TOKEN, token);
  }
}

// Listeners are told of each answer 401, so that the page can ask for a token.
type Listener = (error: ApiError) => void;
const refusals = new Set<Listener>();

export function onUnauthorized(listener: Listener): () => void {
  refusals.add(listener);
  return () => refusals.delete(listener);
}

// The text of {"error": "text"} or, as in OpenAI's API, {"error": {"message": "text"}}.
export function errorText(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || !("error" in value)) {
    return undefined;
  }
  const { error } = value;
  if (typeof error === "object" && error !== null && "message" in error) {
    return String(error.message);
  }
  return typeof error === "string" ? error : undefined;
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  let message = text.trim() || `${response.status} ${response.statusText}`;
  try {
    message = errorText(JSON.parse(text)) ?? message;
  } catch {
    // Plain text is as good.
  }
  return new ApiError(response.status, message);
}

export interface CallOptions {
  method?: "GET" | "POST";
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

// The response, whose status is one of success. Throws ApiError, or the AbortError of `signal`.
export async function call(path: string, options: CallOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  const token = storedToken();
  if (token !== "") {
    headers["Authorization"] = `Bearer ${token}`;
  }
  let response: Response;
  try {
    response = await fetch(path, {
      method: options.method ?? "GET",
      headers,
      ...(options.body === undefined ? {} : { body: options.body }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      cache: "no-store",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      throw error;
    }
    throw new ApiError(0, "the server does not answer");
  }
  if (!response.ok) {
    const error = await errorOf(response);
    if (error.status === 401) {
      refusals.forEach((listener) => listener(error));
    }
    throw error;
  }
  return response;
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await call(path, signal === undefined ? {} : { signal });
  return (await response.json()) as T;
}

// A query of the pairs that have a value.
export function query(pairs: Record<string, string | number | undefined>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(pairs)) {
    if (value !== undefined && value !== "") {
      search.set(key, String(value));
    }
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}

// "/v2/models/NAME/versions/VERSION", the version left out where there is none.
export function modelPath(name: string, version: string): string {
  const path = `/v2/models/${encodeURIComponent(name)}`;
  return version === "" ? path : `${path}/versions/${encodeURIComponent(version)}`;
}
