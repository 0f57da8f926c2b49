// Prints what to do if this Node cannot run the project's TypeScript. It is plain JavaScript, so that old versions can run it.
const [major, minor] = process.versions.node.split(".").map(Number);
const runsTypeScript = major > 23 || (major === 23 && minor >= 6) || (major === 22 && minor >= 18);

if (!runsTypeScript) {
  const bundled = process.platform === "linux" && process.arch === "x64";
  console.error(`This needs Node 22.18 or newer (it is tested with 24); this is Node ${process.versions.node}.`);
  if (bundled) console.error("Run it through npm: `npm ci` without --omit=optional installs a Node 24 that npm scripts use.");
  else console.error("Install Node 24, from https://nodejs.org/en/download or with `nvm install 24`, and run `npm ci` again.");
  process.exit(1);
}
