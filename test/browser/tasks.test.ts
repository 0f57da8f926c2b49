import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { corpusCalls, currentOutputs } from "../corpus/corpus.ts";
import { CHROMIUM, launchChromium, WITHOUT } from "./chromium.ts";

const PAGES = join(ROOT, "dist", "pages", "worker");
const ORIGIN = "http://worker.test";

describe.skipIf(CHROMIUM === undefined)(`the task engine in Chromium${WITHOUT}`, () => {
  it("[WS3] gives the same bytes as in Node, for every text of the corpus", async () => {
    const thread = readdirSync(PAGES).find((name) => name.startsWith("tasks-")) ?? expect.unreachable();
    const browser = await launchChromium();
    const page = await browser.newPage();
    await page.route(`${ORIGIN}/**`, async (route) => {
      const path = new URL(route.request().url()).pathname;
      if (path === "/") return await route.fulfill({ contentType: "text/html", body: "<!doctype html>" });
      return await route.fulfill({ contentType: "text/javascript", body: await readFile(join(PAGES, thread)) });
    });
    await page.goto(ORIGIN);
    // The file that a worker's page runs, asked as its engine asks it.
    const answers = await page.evaluate(async (calls) => {
      const tasks = new Worker("/tasks.js");
      const answers: string[] = [];
      for (const { taskType, input } of calls) {
        tasks.postMessage({ taskType, input });
        answers.push(await new Promise((resolve) => tasks.addEventListener("message", ({ data }) => resolve(JSON.stringify(data)), { once: true })));
      }
      return answers;
    }, corpusCalls());
    const expected = Object.entries(currentOutputs()).map(([name, output]) => `${name}: ${JSON.stringify({ ok: true, output })}`);
    expect(corpusCalls().map(({ name }, i) => `${name}: ${answers[i]}`)).toEqual(expected);
    expect(expected.length).toBeGreaterThan(300);
  });
});
