/** Charts of concentration through time; a click shows the map of that date. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colours, PALETTE } from "../colours";
import type { Instant } from "../data";
import { count, date, number, seconds, share } from "../format";
import { instants, place, showPlace } from "../state";

type Line = { name: string; colour: number; dash?: number[]; of: (at: Instant) => number | null };
type Chart = { title: string; about: string; say: (value: number | null) => string; range?: [number, number]; lines: Line[] };

const CHARTS: Chart[] = [
  {
    title: "Score",
    about: "0 concentrated, 100 decentralised",
    say: number,
    range: [0, 100],
    lines: [{ name: "Score", colour: 0, of: (at) => at.service_score }],
  },
  {
    title: "Parts of the supply",
    about: "held by",
    say: share,
    lines: [
      { name: "10 largest holders", colour: 0, of: (at) => at.top_10 },
      { name: "10 largest groups", colour: 4, dash: [6, 3], of: (at) => at.top_10_adjusted },
      { name: "10 largest clusters", colour: 5, of: (at) => at.bundles },
      { name: "Exchanges", colour: 1, of: (at) => at.cexs },
      { name: "DEXs", colour: 3, dash: [6, 3], of: (at) => at.dexs },
      { name: "Contracts", colour: 2, of: (at) => at.contracts },
      { name: "Fresh wallets", colour: 6, dash: [2, 3], of: (at) => at.fresh_wallets },
    ],
  },
  {
    title: "Inequality",
    about: "0 equal, 1 all in one hand",
    say: number,
    range: [0, 1],
    lines: [
      { name: "Gini", colour: 0, of: (at) => at.gini_index },
      { name: "HHI", colour: 1, dash: [6, 3], of: (at) => at.herfindahl_hirschman_index },
    ],
  },
  {
    title: "Nakamoto coefficient",
    about: "fewest groups that hold half",
    say: count,
    lines: [{ name: "Groups", colour: 2, of: (at) => at.nakamoto_coefficient }],
  },
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
            {chart.lines.length > 1 && line.name} <b>{chart.say(now ? line.of(now) : null)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

const HEIGHT = 142;

function columns(chart: Chart, listed: Instant[]): uPlot.AlignedData {
  return [listed.map((at) => seconds(at.at)), ...chart.lines.map((line) => listed.map(line.of))];
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
    axes: [{ ...axis, size: 36, space: 70, values: DATES }, { ...axis, size: 46, space: 30, values: (_, splits) => splits.map((at) => (chart.say === share ? `${Math.round(at * 100)}%` : number(at))) }],
    series: [
      {},
      ...chart.lines.map((line): uPlot.Series => ({
        label: line.name,
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
  const lines = CHARTS.flatMap((chart) => chart.lines.map((line) => ({ ...line, say: chart.say })));
  return (
    <div class="wide-table" tabIndex={0} role="region" aria-label="All numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">Date</th>
            {lines.map((line) => <th key={line.name} scope="col" class="num">{line.name}</th>)}
          </tr>
        </thead>
        <tbody>
          {listed.map((at) => (
            <tr key={at.at}>
              <th scope="row">{date(at.at)}</th>
              {lines.map((line) => <td key={line.name} class="num">{line.say(line.of(at))}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
