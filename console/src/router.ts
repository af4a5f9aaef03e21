// Addresses of views, behind the "#": #/, #/models, #/models/NAME/VERSION/TAB, #/log, #/fleet. VERSION is "-" for none.

import { useEffect, useState } from "preact/hooks";

export const TABS = [
  "overview",
  "structure",
  "try",
  "workers",
  "log",
  "sequences",
  "traces",
  "configuration",
] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { view: "overview" }
  | { view: "models" }
  | { view: "log" }
  | { view: "fleet" }
  | { view: "model"; name: string; version: string; tab: Tab }
  | { view: "unknown" };

export function modelHref(name: string, version: string, tab: Tab = "overview"): string {
  const address = `#/models/${encodeURIComponent(name)}/${version === "" ? "-" : encodeURIComponent(version)}`;
  return tab === "overview" ? address : `${address}/${tab}`;
}

export function parseRoute(hash: string): Route {
  const parts = hash.replace(/^#?\/?/, "").split("/");
  const [view, name, version, tab = "overview"] = parts;
  if (view === "" || view === undefined) {
    return { view: "overview" };
  }
  if ((view === "log" || view === "fleet") && name === undefined) {
    return { view };
  }
  if (view !== "models") {
    return { view: "unknown" };
  }
  if (name === undefined || name === "") {
    return { view: "models" };
  }
  const known = TABS.find((each) => each === tab);
  if (known === undefined || parts.length > 4) {
    return { view: "unknown" };
  }
  try {
    const plain = version === undefined || version === "-" ? "" : decodeURIComponent(version);
    return { view: "model", name: decodeURIComponent(name), version: plain, tab: known };
  } catch {
    return { view: "unknown" };
  }
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const change = (): void => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  return route;
}
