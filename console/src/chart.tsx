// Lines over time. A chart takes the width that it is given and follows the colours of the page.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

import { clock } from "./format";

export interface Line {
  label: string;
  color: string; // the name of a variable of style.css
  dashed?: boolean; // so that colour is not the only difference
}

interface Properties {
  title: string;
  lines: Line[];
  // The times in seconds, then the values of each line; null where there is none.
  data: [number[], ...(number | null)[][]];
  format: (value: number) => string;
  summary: string; // what a reader who does not see it is told
}

const HEIGHT = 150;

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function useScheme(): boolean {
  const query = window.matchMedia("(prefers-color-scheme: dark)");
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const change = (): void => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return dark;
}

function options(properties: Properties, width: number): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: variable("--muted"),
    grid: { stroke: variable("--grid"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    scales: { x: { time: true }, y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, size: 28, space: 80, values: (_plot, splits) => splits.map((at) => clock(at * 1000)) },
      { ...axis, size: 62, space: 36, values: (_plot, splits) => splits.map((value) => properties.format(value)) },
    ],
    series: [
      {},
      ...properties.lines.map((line, index) => ({
        label: line.label,
        stroke: variable(line.color),
        width: 1.5,
        ...(line.dashed === true ? { dash: [5, 4] } : {}),
        ...(index === 0 && line.dashed !== true ? { fill: variable("--chart-fill") } : {}),
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}

export function Chart(properties: Properties) {
  const { title, lines, data, format, summary } = properties;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [under, setUnder] = useState<number | null>(null);
  const dark = useScheme();

  useEffect(() => {
    const element = place.current;
    if (element === null) {
      return undefined;
    }
    const made = new uPlot(
      {
        ...options(properties, element.clientWidth),
        hooks: { setCursor: [(each) => setUnder(each.cursor.idx ?? null)] },
      },
      data as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [dark]);
  useEffect(() => plot.current?.setData(data as uPlot.AlignedData), [data]);

  const at = under ?? data[0].length - 1;
  const time = data[0][at];
  return (
    <figure class="chart">
      <figcaption>
        <h2>
          {title} {under !== null && time !== undefined && <span class="muted">at {clock(time * 1000)}</span>}
        </h2>
        <ul class="legend">
          {lines.map((line, index) => {
            const value = data[index + 1]?.[at];
            return (
              <li key={line.label}>
                <svg width="16" height="8" aria-hidden="true">
                  <line
                    x1="0"
                    y1="4"
                    x2="16"
                    y2="4"
                    stroke={`var(${line.color})`}
                    stroke-width="2"
                    {...(line.dashed === true ? { "stroke-dasharray": "4 3" } : {})}
                  />
                </svg>
                {line.label} <b>{value === null || value === undefined ? "–" : format(value)}</b>
              </li>
            );
          })}
        </ul>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={summary} />
    </figure>
  );
}
