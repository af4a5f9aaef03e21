// Small parts that several views have.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { State } from "./types";

const STATES: Record<State, { sign: string; name: string; text: string }> = {
  READY: { sign: "●", name: "good", text: "ready" },
  LOADING: { sign: "◐", name: "busy", text: "loading" },
  UNLOADING: { sign: "◑", name: "busy", text: "unloading" },
  UNAVAILABLE: { sign: "✕", name: "bad", text: "unavailable" },
};

// A model that was never loaded, or was unloaded on purpose, is no fault. Its reason is one of these.
const CALM = ["", "unloaded", "on demand"];

export function isFault(row: { state: State; reason: string }): boolean {
  return row.state === "UNAVAILABLE" && !CALM.includes(row.reason);
}

export function StateBadge({ state, reason = "" }: { state: State; reason?: string }) {
  const calm = state === "UNAVAILABLE" && !isFault({ state, reason });
  const { sign, name, text } = calm ? { sign: "○", name: "idle", text: "not loaded" } : STATES[state];
  return (
    <span class={`badge ${name}`}>
      <span aria-hidden="true">{sign}</span> {text}
    </span>
  );
}

export function Figure({ name, children, note }: { name: string; children: ComponentChildren; note?: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        <span class="value">{children}</span>
        {note !== undefined && <span class="note">{note}</span>}
      </dd>
    </div>
  );
}

// A question that is asked before something is done. Escape and Cancel both close it.
export function Dialog(properties: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby="dialog-title"
      onClose={properties.onClose}
      onClick={(event) => {
        if (event.target === element.current) {
          element.current?.close();
        }
      }}
    >
      <div class="dialog">
        <h2 id="dialog-title">{properties.title}</h2>
        {properties.children}
      </div>
    </dialog>
  );
}

export function CopyButton({ text, children }: { text: string; children: ComponentChildren }) {
  const [done, setDone] = useState("");
  useEffect(() => setDone(""), [text]);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("The browser does not allow it here");
    }
  };
  return (
    <>
      <button type="button" class="small" onClick={() => void copy()}>
        {children}
      </button>
      <span class="muted" role="status">
        {done}
      </span>
    </>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
