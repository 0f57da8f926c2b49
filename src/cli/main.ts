#!/usr/bin/env node
// Nothing is imported before the version is known: an older Node would die of a syntax or a global it has not, without a word on why.
const major = Number(process.versions.node.split(".")[0]);
if (major < 20) {
  process.stderr.write(`compute-router needs Node 20 or newer; this is ${process.versions.node}. Get one at https://nodejs.org\n`);
  process.exitCode = 1;
} else {
  // The argument parser colours whatever it prints, also into a pipe, and knows only the value 1.
  if (!process.stdout.isTTY || (process.env["NO_COLOR"] ?? "") !== "") process.env["NO_COLOR"] = "1";
  const { runCli } = await import("./cli.ts");
  await runCli(process.argv.slice(2));
}
