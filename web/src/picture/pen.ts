/** Draws shapes and texts in pixels, on a canvas or as SVG. */

export type Point = [number, number];
export type Paint = { fill?: string; stroke?: string; width?: number };
export type Lettering = { size: number; colour: string; bold?: boolean; align?: "start" | "middle" | "end" };

export type Pen = {
  box(x: number, y: number, width: number, height: number, fill: string, corner?: number): void;
  /** `title` is shown for the circle by viewers of an SVG file. */
  circle(at: Point, radius: number, paint: Paint, title?: string): void;
  shape(points: Point[], paint: Paint): void;
  line(from: Point, to: Point, colour: string, width: number, opacity?: number): void;
  /** `at` is the base line's start, middle or end. */
  text(at: Point, text: string, lettering: Lettering): void;
};

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const fontOf = (size: number, bold = false) => `${bold ? 650 : 400} ${size}px ${FONT}`;

export function canvasPen(context: CanvasRenderingContext2D): Pen {
  const painted = ({ fill, stroke, width = 1 }: Paint) => {
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (!stroke) return;
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.stroke();
  };
  return {
    box(x, y, width, height, fill, corner = 0) {
      context.beginPath();
      context.roundRect(x, y, width, height, corner);
      painted({ fill });
    },
    circle([x, y], radius, paint) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      painted(paint);
    },
    shape(points, paint) {
      context.beginPath();
      for (const [x, y] of points) context.lineTo(x, y);
      context.closePath();
      painted(paint);
    },
    line(from, to, colour, width, opacity = 1) {
      context.globalAlpha = opacity;
      context.lineCap = "round";
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(...to);
      painted({ stroke: colour, width });
      context.globalAlpha = 1;
    },
    text([x, y], text, { size, colour, bold, align = "start" }) {
      context.font = fontOf(size, bold);
      context.fillStyle = colour;
      context.textAlign = align === "middle" ? "center" : align;
      context.textBaseline = "alphabetic";
      context.fillText(text, x, y);
    },
  };
}

/** Returns a pen, and a function that returns the SVG file that it has drawn. */
export function svgPen(width: number, height: number, title: string): [Pen, () => string] {
  const parts: string[] = [];
  const painted = ({ fill = "none", stroke, width: wide = 1 }: Paint) => `fill="${fill}"${stroke ? ` stroke="${stroke}" stroke-width="${at(wide)}"` : ""}`;
  const pen: Pen = {
    box: (x, y, wide, high, fill, corner = 0) =>
      parts.push(`<rect x="${at(x)}" y="${at(y)}" width="${at(wide)}" height="${at(high)}" rx="${at(corner)}" fill="${fill}"/>`),
    circle: ([x, y], radius, paint, about) =>
      parts.push(`<circle cx="${at(x)}" cy="${at(y)}" r="${at(radius)}" ${painted(paint)}${about ? `><title>${escaped(about)}</title></circle>` : "/>"}`),
    shape: (points, paint) => parts.push(`<polygon points="${points.map((point) => point.map(at).join()).join(" ")}" ${painted(paint)}/>`),
    line: (from, to, colour, wide, opacity = 1) =>
      parts.push(`<line x1="${at(from[0])}" y1="${at(from[1])}" x2="${at(to[0])}" y2="${at(to[1])}" stroke="${colour}" stroke-width="${at(wide)}" stroke-opacity="${opacity}" stroke-linecap="round"/>`),
    text: ([x, y], text, { size, colour, bold, align = "start" }) =>
      parts.push(`<text x="${at(x)}" y="${at(y)}" font-size="${at(size)}" fill="${colour}"${bold ? ' font-weight="650"' : ""} text-anchor="${align}">${escaped(text)}</text>`),
  };
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}">`;
  return [pen, () => [head, `<title>${escaped(title)}</title>`, ...parts, "</svg>\n"].join("\n")];
}

const measure = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;

/** Returns the width of a text in pixels. */
export function widthOf(text: string, size: number, bold = false): number {
  measure.font = fontOf(size, bold);
  return measure.measureText(text).width;
}

/** Returns a text that is at most `room` pixels wide; a longer one is cut. */
export function fitted(text: string, room: number, size: number, bold = false): string {
  if (widthOf(text, size, bold) <= room) return text;
  let [fits, tooLong] = [0, text.length];
  while (tooLong - fits > 1) {
    const middle = (fits + tooLong) >> 1;
    if (widthOf(`${text.slice(0, middle).trimEnd()}…`, size, bold) <= room) fits = middle;
    else tooLong = middle;
  }
  return `${text.slice(0, fits).trimEnd()}…`;
}

const at = (value: number) => String(Math.round(value * 100) / 100);

const escaped = (text: string) =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\ufffe\uffff]/g, " ").replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
