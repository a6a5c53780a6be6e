/** The time slider over all instants of the token, with a play button. */
import { date, share } from "../format";
import { instant, instants, place, play, playing, showPlace } from "../state";

export function TimeBar() {
  const { value: listed } = instants;
  const { value: at } = instant;
  if (!at) return null;
  const last = listed.length - 1;
  return (
    <div class="time" role="group" aria-label="Time">
      <button type="button" class="play" aria-label={playing.value ? "Pause" : "Play the history"} disabled={last === 0} onClick={play}>
        <svg viewBox="0 0 16 16" aria-hidden="true">
          {playing.value ? <path d="M4 2h3v12H4zM9 2h3v12H9z" /> : <path d="M4 2l10 6-10 6z" />}
        </svg>
      </button>
      <Step label="Previous date" path="M10 3 5 8l5 5" disabled={place.value === 0} onClick={() => showPlace(place.value - 1)} />
      <div class="track">
        <div class="marks" aria-hidden="true">
          {listed.length <= 60 &&
            listed.map((one, index) => (
              <span key={one.at} class={one.has_map ? "" : "empty"} style={{ left: last ? `${(index / last) * 100}%` : "50%" }} />
            ))}
        </div>
        <input
          type="range"
          id="slider"
          aria-label="Date"
          min={0}
          max={last}
          step={1}
          value={place.value}
          aria-valuetext={`${date(at.at)}, ${place.value + 1} of ${last + 1}${at.top_10 === null ? "" : `, ten largest ${share(at.top_10)}`}`}
          disabled={last === 0}
          onInput={(event) => {
            playing.value = false;
            showPlace(event.currentTarget.valueAsNumber);
          }}
        />
      </div>
      <Step label="Next date" path="M6 3l5 5-5 5" disabled={place.value === last} onClick={() => showPlace(place.value + 1)} />
      <p class="when">
        <strong>{date(at.at)}</strong> <span>UTC, {place.value + 1} of {last + 1}</span>
      </p>
    </div>
  );
}

function Step(props: { label: string; path: string; disabled: boolean; onClick: () => void }) {
  return (
    <button type="button" class="step" aria-label={props.label} title={props.label} disabled={props.disabled} onClick={props.onClick}>
      <svg viewBox="0 0 16 16" aria-hidden="true" class="line"><path d={props.path} /></svg>
    </button>
  );
}
