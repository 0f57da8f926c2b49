// node scripts/browser-icons.ts: draws the PNG icons of the worker page from its SVG with a local Chromium. Run it after a change of the drawing.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { ROOT } from "./coordinator-process.ts";

const PAGES = join(ROOT, "src", "pages");
const svg = readFileSync(join(PAGES, "shell", "icon.svg"), "utf8");
/** A maskable icon fills its square, and its drawing stays within the inner 80 %. */
const maskable = svg
  .replace('rx="112"', "")
  .replace('<g fill="none"', '<g transform="translate(51 51) scale(.8)"><g fill="none"')
  .replace("</svg>", "</g></svg>");

const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const { name, size, drawing } of [
  { name: "icon-192.png", size: 192, drawing: svg },
  { name: "icon-512.png", size: 512, drawing: svg },
  { name: "icon-maskable-512.png", size: 512, drawing: maskable },
]) {
  const page = await browser.newPage({ viewport: { width: size, height: size } });
  await page.setContent(`<style>*{margin:0}svg{display:block;width:${size}px;height:${size}px}</style>${drawing}`);
  writeFileSync(join(PAGES, "worker", name), await page.screenshot({ omitBackground: true }));
  await page.close();
}
await browser.close();
