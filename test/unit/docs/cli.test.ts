import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { runHere } from "../worker/support/cli-here.ts";

const PAGE = readFileSync("docs/cli.md", "utf8");
const COMMANDS = ["run", "task", "quote", "models", "job", "job cancel", "jobs", "pair create", "pair list", "pair claim", "user", "verify", "mcp"];

test.each(COMMANDS)("docs/cli.md names every option of `%s`", async (command) => {
  const { stdout } = await runHere([...command.split(" "), "--help"]);
  const options = [...stdout.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map(([, option = ""]) => option);
  expect(options.length).toBeGreaterThan(1);
  expect(options.filter((option) => !PAGE.includes(`\`${option}\``))).toEqual([]);
});
