#!/usr/bin/env node
// The entry of the program. It checks the version of Node before any import, because an older Node would fail on new syntax without an explanation.
const major = Number(process.versions.node.split(".")[0]);
if (major < 20) {
  process.stderr.write(`compute-router needs Node 20 or newer; this is ${process.versions.node}. Get one at https://nodejs.org\n`);
  process.exitCode = 1;
} else {
  // The argument parser prints colors even into a pipe, and it only knows NO_COLOR=1.
  if (!process.stdout.isTTY || (process.env["NO_COLOR"] ?? "") !== "") process.env["NO_COLOR"] = "1";
  // The reader of the output may leave, as `head -1` does, and the disk of a file may be full. The command still goes on to its end: a job may be paid, and its
  // facts are still to come.
  let isCut = false;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      // A worker and a server handle the other errors themselves.
      if (error.code === "EPIPE" || stream.listenerCount("error") > 1 || isCut) return;
      isCut = true;
      process.exitCode = 1;
      process.stderr.write(`the output is not complete: it cannot be written (${error.code})\n`);
    });
  }
  const { runCli } = await import("./cli.ts");
  await runCli(process.argv.slice(2));
}
