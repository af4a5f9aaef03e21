// A conversation with a model that OpenAI's API serves.

import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError, call, errorText, getJson } from "../api";
import { microseconds, plural, rate } from "../format";
import { useStore } from "../store";
import { events } from "../tensors";
import type { ModelDetail, TensorMetadata } from "../types";

const PATH = "/v1/chat/completions";

interface Message {
  role: "user" | "assistant";
  content: string;
}

interface Pace {
  tokens: number;
  tookMs: number;
  firstMs: number | undefined;
}

// What an event has of interest here.
interface ChatEvent {
  choices?: { delta?: { content?: string | null; reasoning_content?: string | null } }[];
  usage?: { completion_tokens?: number } | null;
  error?: unknown;
}

function has(tensors: TensorMetadata[], name: string): boolean {
  return tensors.some((each) => each.name === name);
}

// Whether the port serves the model for chats; undefined until that is known. Only models that may be are asked for.
export function useChat(model: ModelDetail, may: boolean): boolean | undefined {
  const { inputs, outputs, kind } = model;
  const text = has(inputs, "text_input") && has(outputs, "text_output");
  const candidate = may && (text || has(inputs, "openai_request") || kind === "graph");
  const [served, setServed] = useState<boolean>();
  useEffect(() => {
    if (!candidate) {
      return;
    }
    const controller = new AbortController();
    getJson<{ data: { id: string }[] }>("/v1/models", controller.signal).then(
      ({ data }) => setServed(data.some(({ id }) => id === model.name)),
      () => setServed(false),
    );
    return () => controller.abort();
  }, [candidate, model.name]);
  return candidate ? served : false;
}

interface Setting {
  field: "temperature" | "max_tokens";
  text: string;
}

const SETTINGS: Setting[] = [
  { field: "temperature", text: "temperature" },
  { field: "max_tokens", text: "most tokens" },
];

// The settings that have a value, as fields of the request.
function fieldsOf(settings: Record<string, string>): Record<string, number> {
  const fields: Record<string, number> = {};
  for (const { field, text } of SETTINGS) {
    const value = settings[field]?.trim() ?? "";
    if (value !== "") {
      fields[field] = Number(value);
      if (Number.isNaN(fields[field])) {
        throw new Error(`${text}: a number was expected, got "${value}"`);
      }
    }
  }
  return fields;
}

export function Chat({ model }: { model: ModelDetail }) {
  const { models } = useStore();
  const [system, setSystem] = useState("");
  const [draft, setDraft] = useState("");
  const [settings, setSettings] = useState<Record<string, string>>({});
  const [messages, setMessages] = useState<Message[]>([]);
  const [pace, setPace] = useState<Pace>();
  const [failure, setFailure] = useState("");
  const [running, setRunning] = useState<AbortController>();
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const send = async (): Promise<void> => {
    const controller = new AbortController();
    abort.current = controller;
    const history: Message[] = [...messages, { role: "user", content: draft }];
    let text = "";
    setFailure("");
    try {
      const body = JSON.stringify({
        model: model.name,
        messages: [...(system.trim() === "" ? [] : [{ role: "system", content: system }]), ...history],
        ...fieldsOf(settings),
        stream: true,
        stream_options: { include_usage: true },
      });
      setRunning(controller);
      setDraft("");
      const begun = performance.now();
      let firstMs: number | undefined;
      let texts = 0;
      let counted = 0; // by the server
      const show = (): void => {
        setMessages([...history, { role: "assistant", content: text }]);
        setPace({ tokens: counted > 0 ? counted : texts, tookMs: performance.now() - begun, firstMs });
      };
      show();
      const headers = { "Content-Type": "application/json" };
      for await (const data of events(await call(PATH, { method: "POST", body, headers, signal: controller.signal }))) {
        if (data === "[DONE]") {
          break;
        }
        const event = JSON.parse(data) as ChatEvent;
        if (event.error !== undefined && event.error !== null) {
          throw new Error(errorText(event) ?? data);
        }
        for (const { delta } of event.choices ?? []) {
          const part = (delta?.reasoning_content ?? "") + (delta?.content ?? "");
          if (part !== "") {
            firstMs ??= performance.now() - begun;
            texts += 1;
            text += part;
          }
        }
        counted = event.usage?.completion_tokens ?? counted;
        show();
      }
    } catch (error) {
      const status = error instanceof ApiError && error.status > 0 ? `${error.status}: ` : "";
      setFailure(controller.signal.aborted ? "Stopped." : status + (error instanceof Error ? error.message : String(error)));
      if (text === "") {
        // A message without an answer goes back to the form.
        setMessages(messages);
        setDraft((last) => (last === "" ? draft : last));
      }
    }
    setRunning(undefined);
  };
  const clear = (): void => {
    setMessages([]);
    setPace(undefined);
    setFailure("");
  };

  const ready = model.state === "READY";
  const versions = models?.filter(({ row }) => row.name === model.name && row.state === "READY").length ?? 1;
  const declared = SETTINGS.filter(({ field }) => has(model.inputs, field) || has(model.inputs, "sampling_parameters"));
  return (
    <div class="columns try">
      <form
        class="card"
        aria-label={`A message to ${model.name}`}
        onSubmit={(event) => {
          event.preventDefault();
          if (running === undefined && draft.trim() !== "") {
            void send();
          }
        }}
      >
        <h2>Message</h2>
        <label for="chat-system">system text, if any</label>
        <textarea
          id="chat-system"
          rows={2}
          value={system}
          onInput={(event) => setSystem(event.currentTarget.value)}
        />
        <label for="chat-message">your message</label>
        <textarea
          id="chat-message"
          rows={4}
          value={draft}
          aria-describedby="chat-keys"
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              event.currentTarget.form?.requestSubmit();
            }
          }}
        />
        <p id="chat-keys" class="muted">
          Enter sends, Shift and Enter begin a line.
        </p>
        {declared.length > 0 && (
          <div class="row">
            {declared.map(({ field, text }) => (
              <label class="check" key={field}>
                {text}{" "}
                <input
                  class="shape"
                  inputMode="decimal"
                  autocomplete="off"
                  value={settings[field] ?? ""}
                  onInput={(event) => setSettings({ ...settings, [field]: event.currentTarget.value })}
                />
              </label>
            ))}
          </div>
        )}
        <div class="row">
          <button type="submit" class="primary" disabled={!ready || running !== undefined || draft.trim() === ""}>
            Send
          </button>
          {running !== undefined && (
            <button type="button" onClick={() => running.abort()}>
              Stop
            </button>
          )}
          <button type="button" disabled={running !== undefined || messages.length === 0} onClick={clear}>
            Clear
          </button>
          {!ready && <span class="muted">The model is not ready.</span>}
        </div>
        {versions > 1 && <p class="muted">The server chooses the version that answers.</p>}
      </form>
      <section class="card answer-card" aria-labelledby="conversation">
        <h2 id="conversation">Conversation</h2>
        {messages.length === 0 && <p class="muted">It appears here.</p>}
        <div role="log" aria-live="polite" aria-busy={running !== undefined} aria-labelledby="conversation">
          {messages.map(({ role, content }, index) => (
            <div class="output message" key={index}>
              <h3>{role === "user" ? "You" : model.name}</h3>
              <p>
                {content}
                {running !== undefined && index === messages.length - 1 && <span class="caret" aria-hidden="true" />}
              </p>
            </div>
          ))}
        </div>
        {pace !== undefined && messages.length > 0 && (
          <p class="muted pace">
            {plural(pace.tokens, "token")} in <b>{microseconds(pace.tookMs * 1000)}</b>
            {pace.firstMs !== undefined &&
              `, ${rate((pace.tokens * 1000) / pace.tookMs)}, the first after ${microseconds(pace.firstMs * 1000)}`}
          </p>
        )}
        {failure !== "" && (
          <p class="warn" role="alert">
            {failure}
          </p>
        )}
      </section>
    </div>
  );
}
