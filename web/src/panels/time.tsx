/** The time slider over all instants of the token, with a line of the score and a play button. */
import { computed, signal } from "@preact/signals";
import { FIGURES } from "../columns";
import { counted, date, figure, seconds } from "../format";
import { instant, instants, place, play, playing, showPlace, SPEEDS, speed } from "../state";

/** The instants that the slider covers: all, or those around a chosen place. */
const zoom = signal<[number, number] | null>(null);
const covered = computed((): [number, number] => {
  const last = instants.value.length - 1;
  const [from, to] = zoom.value ?? [0, last];
  return place.value < from || place.value > to || to > last ? [0, last] : [from, to];
});
const FEWEST = 4;

/** Halves the covered instants around the shown one, or doubles them. */
function zoomBy(factor: number): void {
  const last = instants.value.length - 1;
  const [from, to] = covered.value;
  const half = Math.max(FEWEST / 2, ((to - from) * factor) / 2);
  const [start, end] = [Math.floor(place.value - half), Math.ceil(place.value + half)];
  zoom.value = end - start >= last ? null : [Math.max(0, start), Math.min(last, end)];
}

export function TimeBar() {
  const { value: listed } = instants;
  const { value: at } = instant;
  if (!at) return null;
  const last = listed.length - 1;
  const [from, to] = covered.value;
  const times = listed.map((one) => seconds(one.at));
  const [begin, end] = [times[from] as number, times[to] as number];
  const part = (index: number) => (end > begin ? ((times[index] as number) - begin) / (end - begin) : 0.5);
  const inside = listed.slice(from, to + 1);
  const go = (step: number) => (event: KeyboardEvent) => {
    event.preventDefault();
    playing.value = false;
    showPlace(place.value + step);
  };
  const keys: Record<string, (event: KeyboardEvent) => void> = {
    ...{ ArrowLeft: go(-1), ArrowDown: go(-1), ArrowRight: go(1), ArrowUp: go(1) },
    ...{ PageDown: go(-10), PageUp: go(10), Home: go(-last), End: go(last) },
  };
  if (!last) return <div class="time"><p class="when"><strong>{date(at.at)}</strong> <span>UTC, the only date</span></p></div>;
  return (
    <div class="time" role="group" aria-label="Time">
      <button type="button" class="play" aria-label={playing.value ? "Pause" : "Play the history"} disabled={last === 0} onClick={play}>
        <svg viewBox="0 0 16 16" aria-hidden="true">
          {playing.value ? <path d="M4 2h3v12H4zM9 2h3v12H9z" /> : <path d="M4 2l10 6-10 6z" />}
        </svg>
      </button>
      <Step label="Previous date" path="M10 3 5 8l5 5" disabled={place.value === 0} onClick={() => showPlace(place.value - 1)} />
      <div class="track">
        {at.service_score !== null && <span class="score-name" aria-hidden="true">{FIGURES.service_score.title} {figure("service_score", at.service_score)}</span>}
        <Score points={inside.map((one, index) => [part(from + index), one.service_score])} />
        <div class="marks" aria-hidden="true">
          {inside.length <= 400 &&
            inside.map((one, index) => (
              <span key={one.at} class={one.has_map ? "" : "empty"} style={{ left: `${part(from + index) * 100}%` }} />
            ))}
        </div>
        <input
          type="range"
          id="slider"
          aria-label="Date"
          min={begin}
          max={end > begin ? end : begin + 1}
          step={1}
          value={times[place.value]}
          aria-valuetext={`${date(at.at)}, ${place.value + 1} of ${last + 1}, ${FIGURES.top_10_share.title} ${figure("top_10_share", at.top_10_share)}`}
          disabled={last === 0}
          onKeyDown={(event) => keys[event.key]?.(event)}
          onInput={(event) => {
            playing.value = false;
            showPlace(nearest(times, event.currentTarget.valueAsNumber));
          }}
        />
      </div>
      <Step label="Next date" path="M6 3l5 5-5 5" disabled={place.value === last} onClick={() => showPlace(place.value + 1)} />
      <div class="pace">
        <select aria-label="Dates a second" value={speed.value} onChange={(event) => (speed.value = Number(event.currentTarget.value))}>
          {SPEEDS.map((one) => <option key={one} value={one}>{counted(one, "date")}/s</option>)}
        </select>
        {last > FEWEST && (
          <>
            <Step label="Zoom into the time around this date" path="M1 8h5M4 6l2 2-2 2M15 8h-5M12 6l-2 2 2 2M8 3v10" disabled={to - from <= FEWEST} onClick={() => zoomBy(0.5)} />
            <Step label="Zoom out of time" path="M6 8H1M3 6 1 8l2 2M10 8h5M13 6l2 2-2 2M8 3v10" disabled={to - from >= last} onClick={() => zoomBy(2)} />
          </>
        )}
      </div>
      <p class="when">
        <strong>{date(at.at)}</strong> <span>UTC, date {place.value + 1} of {last + 1}</span>
      </p>
    </div>
  );
}

/** Returns the index of the time that is nearest to a given one. */
function nearest(times: number[], wanted: number): number {
  return times.reduce((best, time, index) => (Math.abs(time - wanted) < Math.abs((times[best] as number) - wanted) ? index : best), 0);
}

/** A line of the score over the slider; a date without a score interrupts it. */
function Score({ points }: { points: [number, number | null][] }) {
  const runs = points.reduce<string[]>((made, [x, score], index) => {
    if (score === null) return made;
    const isNew = index === 0 || points[index - 1]?.[1] === null;
    const text = `${(x * 100).toFixed(2)} ${(20 - score / 5).toFixed(2)}`;
    return isNew ? [...made, `M${text}`] : [...made.slice(0, -1), `${made.at(-1)}L${text}`];
  }, []);
  return (
    <svg class="score-line" viewBox="0 -1 100 22" preserveAspectRatio="none" aria-hidden="true">
      <path d={runs.join("")} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

function Step(props: { label: string; path: string; disabled: boolean; onClick: () => void }) {
  return (
    <button type="button" class="step" aria-label={props.label} title={props.label} disabled={props.disabled} onClick={props.onClick}>
      <svg viewBox="0 0 16 16" aria-hidden="true" class="line"><path d={props.path} /></svg>
    </button>
  );
}
