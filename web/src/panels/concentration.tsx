/** Charts of concentration through time; a click shows the map of that date. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colours } from "../colours";
import { FIGURES, PALETTE, type FigureName } from "../columns";
import type { Instant } from "../data";
import { date, figure, number, seconds } from "../format";
import { instants, place, showPlace } from "../state";

type Line = { name: FigureName; colour: number; dash?: number[] };
type Chart = { title: string; about: string; range?: [number, number]; lines: Line[] };

const only = (name: FigureName, colour: number, range?: [number, number]): Chart => ({ title: FIGURES[name].title, about: FIGURES[name].explanation, lines: [{ name, colour }], ...(range && { range }) });

const CHARTS: Chart[] = [
  only("service_score", 0, [0, 100]),
  {
    title: "Parts of the supply",
    about: "held by",
    lines: [
      { name: "top_10_share", colour: 0 },
      { name: "top_10_adjusted", colour: 4, dash: [6, 3] },
      { name: "bundles", colour: 5 },
      { name: "cexs", colour: 1 },
      { name: "dexs", colour: 3, dash: [6, 3] },
      { name: "contracts", colour: 2 },
      { name: "fresh_wallets", colour: 6, dash: [2, 3] },
    ],
  },
  {
    title: "Inequality",
    about: "0 equal, 1 all in one hand",
    range: [0, 1],
    lines: [
      { name: "gini_index", colour: 0 },
      { name: "herfindahl_hirschman_index", colour: 1, dash: [6, 3] },
    ],
  },
  only("nakamoto_coefficient", 2),
];

export function Concentration() {
  const listed = instants.value.filter((at) => at.has_map);
  if (!listed.length) return <p class="quiet pad">No map of this token is known, and so no concentration.</p>;
  return (
    <div class="charts">
      {CHARTS.map((chart) => <Plot key={chart.title} chart={chart} listed={listed} />)}
      <details>
        <summary>All numbers as a table</summary>
        <Numbers listed={listed} />
      </details>
    </div>
  );
}

function Plot({ chart, listed }: { chart: Chart; listed: Instant[] }) {
  const box = useRef<HTMLDivElement>(null);
  const { value: ink } = colours;
  const here = instants.value[place.value]?.at ?? "";
  useEffect(() => {
    const into = box.current;
    if (!into) return;
    const made = new uPlot(options(chart, into.clientWidth, ink, () => here), columns(chart, listed), into);
    made.over.addEventListener("click", () => {
      const at = made.cursor.idx;
      if (at !== null && at !== undefined) showPlace(instants.peek().findIndex((one) => one.at === listed[at]?.at));
    });
    const watch = new ResizeObserver(() => made.setSize({ width: into.clientWidth, height: HEIGHT }));
    watch.observe(into);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [chart, listed.map((at) => at.at).join(), ink, here]);
  const now = listed.find((at) => at.at === here);
  return (
    <figure class="chart">
      <figcaption>
        <h3>{chart.title}</h3> <span class="quiet">{chart.about}</span>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`${chart.title} through time; the table below has its numbers`} />
      <ul class="legend">
        {chart.lines.map((line) => (
          <li key={line.name}>
            <svg viewBox="0 0 18 4" aria-hidden="true"><path d="M0 2h18" stroke={PALETTE[line.colour]} stroke-width="3" stroke-dasharray={line.dash?.join(" ")} /></svg>
            {chart.lines.length > 1 && FIGURES[line.name].title} <b>{figure(line.name, now?.[line.name])}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

const HEIGHT = 142;

function columns(chart: Chart, listed: Instant[]): uPlot.AlignedData {
  return [listed.map((at) => seconds(at.at)), ...chart.lines.map((line) => listed.map((at) => at[line.name]))];
}

/** The text of a date on the axis, by the seconds between two: of every one, and what the first one of a year, month or day adds. */
const DATES: uPlot.Axis.Values = [
  [365 * 86_400, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * 86_400, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86_400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
];

function options(chart: Chart, width: number, ink: typeof colours.value, here: () => string): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: ink.quiet,
    grid: { stroke: ink.grid, width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
    size: 26,
  };
  return {
    width,
    height: HEIGHT,
    padding: [8, 10, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "concentration" }, drag: { x: false, y: false }, points: { size: 7 } },
    tzDate: (unix) => uPlot.tzDate(new Date(unix * 1000), "Etc/UTC"),
    scales: { y: chart.range ? { range: chart.range } : { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [{ ...axis, size: 36, space: 70, values: DATES }, { ...axis, size: 46, space: 30, values: (_, splits) => splits.map((at) => (FIGURES[(chart.lines[0] as Line).name].unit === "share" ? `${Math.round(at * 100)}%` : number(at))) }],
    series: [
      {},
      ...chart.lines.map((line): uPlot.Series => ({
        label: FIGURES[line.name].title,
        stroke: PALETTE[line.colour] ?? PALETTE[0],
        width: 2,
        spanGaps: true,
        points: { size: 5, show: true },
        ...(line.dash && { dash: line.dash }),
      })),
    ],
    hooks: {
      drawAxes: [
        (plot) => {
          const x = Math.round(plot.valToPos(seconds(here()), "x", true));
          if (Number.isNaN(x)) return;
          plot.ctx.save();
          plot.ctx.strokeStyle = ink.quiet;
          plot.ctx.lineWidth = devicePixelRatio;
          plot.ctx.beginPath();
          plot.ctx.moveTo(x, plot.bbox.top);
          plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
          plot.ctx.stroke();
          plot.ctx.restore();
        },
      ],
    },
  };
}

function Numbers({ listed }: { listed: Instant[] }) {
  const names = CHARTS.flatMap((chart) => chart.lines.map((line) => line.name));
  return (
    <div class="wide-table" tabIndex={0} role="region" aria-label="All numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">Date</th>
            {names.map((name) => <th key={name} scope="col" class="num">{FIGURES[name].title}</th>)}
          </tr>
        </thead>
        <tbody>
          {listed.map((at) => (
            <tr key={at.at}>
              <th scope="row">{date(at.at)}</th>
              {names.map((name) => <td key={name} class="num">{figure(name, at[name])}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
