// The page: its frame, the view that the address names, and what concerns all views: keys, the token, a lost server.

import "uplot/dist/uPlot.min.css";
import "./style.css";

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";

import { onUnauthorized, storedToken, storeToken } from "./api";
import { clock } from "./format";
import { Dialog, Empty } from "./parts";
import { useLostSince } from "./poll";
import { useRoute, type Route } from "./router";
import { StoreContext, useStore, useStorePoll } from "./store";
import { FleetView } from "./views/fleet";
import { LogView } from "./views/log";
import { ModelView } from "./views/model";
import { ModelsView } from "./views/models";
import { OverviewView } from "./views/overview";

function TokenDialog({ onClose, onToken }: { onClose: () => void; onToken: (token: string) => void }) {
  const [token, setToken] = useState("");
  return (
    <Dialog title="A token is needed" onClose={onClose}>
      <p>The server does not know who asks. The token is kept in this tab and sent with each request of this page.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onToken(token.trim());
        }}
      >
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <div class="buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={token.trim() === ""}>
            Use it
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const KEYS: [string, string][] = [
  ["/", "search"],
  ["↑ ↓ Home End", "from row to row"],
  ["Enter", "open"],
  ["1 2 3 4", "overview, models, log, the fleet where there is one"],
  ["[ ]", "the tab before, the next one"],
  ["+ − 0, arrows", "zoom and move a drawing that has the focus"],
  ["?", "this list"],
];

function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="pairs keys">
        {KEYS.map(([key, meaning]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </>
        ))}
      </dl>
      <form method="dialog" class="buttons">
        <button type="submit">Close</button>
      </form>
    </Dialog>
  );
}

// Moves to the tab beside the one that is shown.
function otherTab(step: number): void {
  const tabs = [...document.querySelectorAll<HTMLAnchorElement>(".tabs a")];
  const at = tabs.findIndex((tab) => tab.getAttribute("aria-current") === "page");
  if (at >= 0) {
    tabs[(at + step + tabs.length) % tabs.length]?.click();
  }
}

function useKeys(onHelp: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
      if (typing && event.key === "Escape") {
        target.blur();
        return;
      }
      if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) {
        return;
      }
      const keys: Record<string, () => void> = {
        "/": () => {
          const field = document.querySelector<HTMLElement>('input[type="search"]');
          if (field !== null) {
            field.focus();
          } else {
            location.hash = "#/models";
            requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("search")?.focus()));
          }
        },
        "1": () => (location.hash = "#/"),
        "2": () => (location.hash = "#/models"),
        "3": () => (location.hash = "#/log"),
        "4": () => document.querySelector<HTMLAnchorElement>('nav a[href="#/fleet"]')?.click(),
        "[": () => otherTab(-1),
        "]": () => otherTab(1),
        "?": onHelp,
      };
      const act = keys[event.key];
      if (act !== undefined) {
        event.preventDefault();
        act();
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function Status() {
  const { overview, error } = useStore();
  const lost = useLostSince();
  if (lost !== undefined) {
    return (
      <p class="banner" role="status">
        The server has not answered since {clock(lost)}. What is shown is from then; the page goes on asking.
      </p>
    );
  }
  if (error !== undefined && (error.status === 401 || error.status === 403)) {
    return (
      <p class="banner" role="status">
        {error.message}
      </p>
    );
  }
  if (overview?.server.draining === true) {
    return (
      <p class="banner" role="status">
        The server is shutting down: it finishes what runs and takes nothing new.
      </p>
    );
  }
  return null;
}

function ServerBadge() {
  const { overview, models } = useStore();
  const lost = useLostSince();
  const [sign, name, text] =
    lost !== undefined
      ? ["✕", "bad", "no answer"]
      : overview === undefined
        ? models === undefined
          ? ["◐", "busy", "connecting"]
          : ["●", "good", "answers"]
        : overview.server.draining
          ? ["◑", "busy", "draining"]
          : overview.server.ready
            ? ["●", "good", "ready"]
            : ["◐", "busy", "not ready"];
  return (
    <span class={`badge ${name}`}>
      <span aria-hidden="true">{sign}</span> {text}
    </span>
  );
}

function View({ route }: { route: Route }) {
  switch (route.view) {
    case "overview":
      return <OverviewView />;
    case "models":
      return <ModelsView />;
    case "log":
      return <LogView />;
    case "fleet":
      return <FleetView />;
    case "model":
      return <ModelView name={route.name} version={route.version} tab={route.tab} />;
    default:
      return (
        <Empty>
          There is nothing at this address. <a href="#/">Overview</a>
        </Empty>
      );
  }
}

function titleOf(route: Route): string {
  const names = { overview: "Overview", models: "Models", log: "Log", fleet: "Fleet", unknown: "Not found" };
  return route.view === "model" ? route.name : names[route.view];
}

function Page() {
  const route = useRoute();
  const [token, setToken] = useState(storedToken);
  const [dialog, setDialog] = useState<"token" | "keys">();
  const [declined, setDeclined] = useState(false);
  const store = useStorePoll(token);
  useKeys(() => setDialog("keys"));
  useEffect(
    () =>
      onUnauthorized(() => {
        if (!declined) {
          setDialog("token");
        }
      }),
    [declined],
  );
  useEffect(() => {
    document.title = `${titleOf(route)} – Braid`;
  }, [route]);
  const at = route.view === "model" ? "models" : route.view;
  const links: [string, string, string][] = [
    ["overview", "#/", "Overview"],
    ["models", "#/models", "Models"],
    ["log", "#/log", "Log"],
  ];
  if (store.overview?.fleet === true) {
    links.push(["fleet", "#/fleet", "Fleet"]);
  }
  const close = (): void => {
    setDeclined(dialog === "token");
    setDialog(undefined);
  };
  return (
    <StoreContext.Provider value={store}>
      <a class="skip" href="#content" onClick={(event) => {
        event.preventDefault();
        document.getElementById("content")?.focus();
      }}>
        Skip to the content
      </a>
      <header>
        <a class="brand" href="#/">
          <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
            <g fill="none" stroke="currentColor" stroke-width="3.5" stroke-linecap="round">
              <path d="M10 3c0 7 12 6 12 13s-12 6-12 13" />
              <path d="M22 3c0 3.5-3 4.800-5 6M12.5 12.5C11 13.700 10 14.500 10 16c0 2.200 1.300 3.300 3 4.300M18.500 23c2 1.200 3.5 2.600 3.5 6" />
            </g>
          </svg>
          Braid
        </a>
        <nav aria-label="Views">
          {links.map(([view, href, text]) => (
            <a key={view} href={href} aria-current={view === at ? "page" : undefined}>
              {text}
            </a>
          ))}
        </nav>
        <div class="end">
          <span class="server muted">{store.overview?.server.version}</span>
          <ServerBadge />
          <button type="button" class="quiet" onClick={() => setDialog("token")}>
            Token
          </button>
          <button type="button" class="quiet wide" aria-label="Keys" onClick={() => setDialog("keys")}>
            ?
          </button>
        </div>
      </header>
      <Status />
      <main id="content" tabIndex={-1}>
        <View route={route} />
      </main>
      {dialog === "keys" && <KeysDialog onClose={close} />}
      {dialog === "token" && (
        <TokenDialog
          onClose={close}
          onToken={(typed) => {
            storeToken(typed);
            setToken(typed);
            setDeclined(false);
            setDialog(undefined);
          }}
        />
      )}
    </StoreContext.Provider>
  );
}

const place = document.getElementById("page");
if (place !== null) {
  render(<Page />, place);
}
