// The plot of npm run bench: jobs per second of each system over the number of workers.
import { BASE, type Results, typical } from "./figures.ts";

const COLOURS = ["#d33682", "#6c71c4", "#268bd2", "#2aa198", "#859900", "#b58900", "#cb4b16", "#586e75", "#3949ab", "#00897b", "#795548"];
const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT] = [860, 420, 60, 30, 50, 370];

/** Jobs per second over the number of workers, as an SVG that is readable on light and on dark. */
export function plot(results: Results): string {
  const { plan, labels } = results;
  const names = Object.keys(labels);
  const values = names.map((name) => plan.workers.map((workers) => typical(results, name, workers, null, (cell) => cell.jobsPerSecond)));
  const top = Math.max(...values.flat()) * 1.05;
  const x = (index: number): number => LEFT + (index * (WIDTH - LEFT - RIGHT)) / Math.max(1, plan.workers.length - 1);
  const y = (value: number): number => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const step = 10 ** Math.floor(Math.log10(top));
  const unit = top / step < 2 ? step / 4 : top / step < 5 ? step / 2 : step;
  const grid = Array.from({ length: Math.floor(top / unit) + 1 }, (_, n) => n * unit).flatMap((value) => [
    `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value).toFixed(1)}" y2="${y(value).toFixed(1)}" stroke="#888" stroke-opacity="0.3"/>`,
    `<text x="${LEFT - 8}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end">${value.toLocaleString("en-US")}</text>`,
  ]);
  const axis = plan.workers.map((workers, index) => `<text x="${x(index)}" y="${HEIGHT - BOTTOM + 20}" text-anchor="middle">${workers}</text>`);
  const lines = values.flatMap((row, n) => {
    const colour = COLOURS[n % COLOURS.length];
    const points = row.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`);
    const width = names[n]?.startsWith(BASE) ? 3 : 1.5;
    return [
      `<polyline points="${points.join(" ")}" fill="none" stroke="${colour}" stroke-width="${width}"/>`,
      ...points.map((point) => `<circle cx="${point.split(",")[0]}" cy="${point.split(",")[1]}" r="3" fill="${colour}"/>`),
      `<rect x="${WIDTH - RIGHT + 20}" y="${TOP + n * 24 - 9}" width="12" height="12" fill="${colour}"/>`,
      `<text x="${WIDTH - RIGHT + 38}" y="${TOP + n * 24 + 2}">${labels[names[n] ?? ""]?.replaceAll("&", "&amp;") ?? ""}</text>`,
    ];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" fill="#808080">
<title>Jobs per second over the number of workers</title>
${[...grid, ...axis, ...lines].join("\n")}
<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 8}" text-anchor="middle">workers; jobs per second, the median of ${plan.rounds} rounds</text>
</svg>
`;
}
