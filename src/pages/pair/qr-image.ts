import { encode } from "uqr";

const SVG = "http://www.w3.org/2000/svg";
/** The light border, in modules. The standard requires four. */
const BORDER = 4;

/** A text as a QR code in one SVG path. It is black on white even in dark mode, because many readers do not recognise an inverted code. */
export function qrImage(text: string, label: string): SVGSVGElement {
  const { data, size } = encode(text, { ecc: "M", border: BORDER });
  const image = document.createElementNS(SVG, "svg");
  image.setAttribute("viewBox", `0 0 ${size} ${size}`);
  image.setAttribute("role", "img");
  image.setAttribute("aria-label", label);
  image.setAttribute("shape-rendering", "crispEdges");
  const ink = document.createElementNS(SVG, "path");
  ink.setAttribute("d", data.flatMap(runs).join(""));
  image.append(ink);
  return image;
}

/** The dark modules of a row as SVG path data: one rectangle for each run. */
function runs(row: readonly boolean[], y: number): string[] {
  const paths: string[] = [];
  for (let x = 0; x < row.length; x++) {
    const start = x;
    while (row[x] === true) x++;
    if (x > start) paths.push(`M${start} ${y}h${x - start}v1h-${x - start}z`);
  }
  return paths;
}
