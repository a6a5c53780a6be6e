/** Colours of the page and of clusters. A cluster keeps its colour through time; colour-blind people can distinguish all. */
import { computed, signal } from "@preact/signals";
import { PALETTE } from "./columns";
import type { Bubble } from "./map/scene";

/** Colours of changes, with a contrast of 3:1 to light and dark ground, which colour-blind people distinguish; none is the colour of a cluster. */
export const CHANGES = { entered: "#7a4cc4", grew: "#2a9098", shrank: "#c27326", same: "", left: "#9c4f10" } as const;
/** The changes that a map shows, with their signs. */
export const CHANGE_SIGNS = { entered: "+", grew: "▲", shrank: "▼" } as const;

const LIGHT = {
  ground: "#fbfbf9",
  lone: "#c3cad1",
  /** Outline of a lone bubble: its contrast with the ground is 3:1. */
  rim: "#858f99",
  edge: "#ffffff",
  link: "rgba(84, 96, 110, 0.32)",
  strong: "#1c2127",
  ink: "#1c2127",
  quiet: "#56606b",
  grid: "#e6e8ea",
  /** Strength of the tint around a cluster, from 0 to 1. */
  tint: 0.16,
};
const DARK: typeof LIGHT = {
  ground: "#14171b",
  lone: "#4a545f",
  rim: "#717c88",
  edge: "#14171b",
  link: "rgba(160, 172, 186, 0.30)",
  strong: "#f2f4f6",
  ink: "#e8eaed",
  quiet: "#a3adb8",
  grid: "#2a3037",
  tint: 0.24,
};

export const THEMES = ["auto", "light", "dark"] as const;
export const theme = signal<(typeof THEMES)[number]>(THEMES.find((one) => one === stored()) ?? "auto");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(prefersDark.matches);
prefersDark.addEventListener("change", () => (systemDark.value = prefersDark.matches));

/** Whether the page is being printed, which is always light. */
export const isPrinted = signal(false);
const printed = matchMedia("print");
printed.addEventListener("change", () => (isPrinted.value = printed.matches));
addEventListener("beforeprint", () => (isPrinted.value = true));
addEventListener("afterprint", () => (isPrinted.value = false));

export const isDark = computed(() => !isPrinted.value && (theme.value === "dark" || (theme.value === "auto" && systemDark.value)));
export const colours = computed(() => (isDark.value ? DARK : LIGHT));

export function setTheme(chosen: (typeof THEMES)[number]): void {
  theme.value = chosen;
  try {
    localStorage.setItem("theme", chosen);
  } catch {} // a saved page may have no storage
}

function stored(): string | null {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

/** The palette index of each address in the previous map. */
const previous = new Map<string, number>();

/** Returns the colour of each cluster: the one that most of its members had, unless a near cluster has it, else the one whose clusters are
 * farthest. So up to eight clusters, and each cluster and its nearest seven that have a colour, differ. */
export function clusterColours(bubbles: Bubble[]): Map<number, string> {
  const members = new Map<number, Bubble[]>();
  for (const bubble of bubbles) {
    const { cluster_id: number } = bubble.node;
    if (number === null) continue;
    const listed = members.get(number);
    if (listed) listed.push(bubble);
    else members.set(number, [bubble]);
  }
  const chosen = new Map<number, number>();
  /** The colours of the clusters that have one, the nearest cluster first. */
  const around = (of: Bubble[]) => [...chosen].map(([other, colour]) => ({ colour, apart: gap(of, members.get(other) ?? []) })).sort((one, two) => one.apart - two.apart).map(({ colour }) => colour);
  const ordered = [...members].sort(([one], [two]) => one - two);
  for (const [cluster, all] of ordered) {
    const votes = new Map<number, number>();
    for (const { node } of all) {
      const before = previous.get(node.address);
      if (before !== undefined) votes.set(before, (votes.get(before) ?? 0) + 1);
    }
    const near = around(all).slice(0, PALETTE.length - 1);
    const [most] = [...votes].filter(([colour]) => !near.includes(colour)).sort((one, two) => two[1] - one[1]);
    if (most) chosen.set(cluster, most[0]);
  }
  for (const [cluster, all] of ordered) {
    if (chosen.has(cluster)) continue;
    const used = around(all);
    const rooms = PALETTE.map((_, colour) => (used.includes(colour) ? used.indexOf(colour) : Infinity));
    chosen.set(cluster, rooms.indexOf(Math.max(...rooms)));
  }
  for (const [cluster, all] of ordered) for (const { node } of all) previous.set(node.address, chosen.get(cluster) ?? 0);
  return new Map([...chosen].map(([cluster, colour]) => [cluster, PALETTE[colour] ?? PALETTE[0]]));
}

/** Returns the least distance between the bubbles of two clusters. */
function gap(some: Bubble[], others: Bubble[]): number {
  let least = Infinity;
  for (const one of some) for (const two of others) least = Math.min(least, Math.hypot(one.x - two.x, one.y - two.y) - one.radius - two.radius);
  return least;
}

export function forgetColours(): void {
  previous.clear();
}

const channels = (colour: string) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));

/** Returns a colour with a part (0 to 1) of another one mixed in. */
export function mixed(colour: string, other: string, part: number): string {
  const more = channels(other);
  return `#${channels(colour).map((one, at) => Math.round(one + ((more[at] as number) - one) * part).toString(16).padStart(2, "0")).join("")}`;
}

/** Returns black or white, the one with more contrast to a colour. */
export function textOn(colour: string): string {
  const [red = 0, green = 0, blue = 0] = channels(colour).map((one) => (one / 255) ** 2.2);
  return red * 0.2126 + green * 0.7152 + blue * 0.0722 > 0.18 ? "#10141a" : "#ffffff";
}
