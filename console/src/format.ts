// Numbers, times and sizes as people read them: three digits that count, and a unit.

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) {
    return Math.round(value).toLocaleString("en");
  }
  return value.toFixed(size >= 10 ? 1 : 2);
}

export const NONE = "–";

export function count(value: number): string {
  if (value >= 1e9) {
    return `${digits(value / 1e9)} G`;
  }
  return value >= 1e6 ? `${digits(value / 1e6)} M` : Math.round(value).toLocaleString("en");
}

export function rate(perSecond: number | undefined): string {
  if (perSecond === undefined || !Number.isFinite(perSecond)) {
    return NONE;
  }
  if (perSecond === 0) {
    return "0/s";
  }
  if (perSecond < 0.01) {
    return "<0.01/s";
  }
  return perSecond >= 1e4 ? `${digits(perSecond / 1e3)} k/s` : `${digits(perSecond)}/s`;
}

export function microseconds(us: number | undefined): string {
  if (us === undefined || !Number.isFinite(us)) {
    return NONE;
  }
  if (us < 1000) {
    return `${digits(us)} µs`;
  }
  return us < 1e6 ? `${digits(us / 1e3)} ms` : `${digits(us / 1e6)} s`;
}

export function bytes(value: number | undefined): string {
  if (value === undefined) {
    return NONE;
  }
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    ++unit;
  }
  return `${digits(size)} ${units[unit]}`;
}

export function percent(share: number): string {
  return share > 0 && share < 0.01 ? "<1 %" : `${Math.round(share * 100)} %`;
}

export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) {
    return `${seconds} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return `${minutes} min ${seconds % 60} s`;
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function ago(ms: number): string {
  return ms < 1500 ? "now" : `${duration(ms)} ago`;
}

export function plural(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function clock(ms: number): string {
  const time = new Date(ms);
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

export function clockMs(ms: number): string {
  return `${clock(ms)}.${String(Math.floor(ms) % 1000).padStart(3, "0")}`;
}
