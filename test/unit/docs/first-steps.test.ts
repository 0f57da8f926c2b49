import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

test.each(["README.md", "docs/sdk.md", "docs/worker.md", "docs/payments.md"])(
  "%s: a shell example sets each variable that it uses, or a comment explains it",
  (page) => {
    const blocks = [...readFileSync(page, "utf8").matchAll(/```sh\n([^]*?)```/g)].map(([, text = ""]) => text);
    const unexplained = blocks.flatMap((block) => {
      const lines = block.split("\n");
      const comments = lines.filter((line) => line.startsWith("#")).join("\n");
      const commands = lines.filter((line) => !line.startsWith("#")).join("\n");
      const used = [...commands.matchAll(/\$\{?([A-Z][A-Z_]+)/g)].map(([, name = ""]) => name);
      return used.filter((name) => !comments.includes(`$${name}`) && !new RegExp(`\\b${name}=`).test(commands));
    });
    expect(unexplained).toEqual([]);
  },
);

test("git ignores the secret key that the Python worker writes into the folder where it is started", () => {
  const [, file] = /async def main\(url, path="([^"]+)"\)/.exec(readFileSync("examples/worker.py", "utf8")) ?? expect.unreachable("the default path");
  expect(readFileSync(".gitignore", "utf8").split("\n")).toContain(file);
});
