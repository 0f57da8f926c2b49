/**
 * `strip` takes out of package.json, before it is packed, the Node that npm scripts of this repository run with, and the script that builds a clone;
 * `restore` puts them back.
 * A user of the package would have 100 MB installed for nothing, and another Node than theirs in `node_modules/.bin`.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";

const MANIFEST = new URL("../package.json", import.meta.url);
const KEPT = new URL("../.package.json.kept", import.meta.url);

const text = readFileSync(MANIFEST, "utf8");
switch (process.argv[2]) {
  case "strip": {
    const { optionalDependencies, scripts, ...others } = JSON.parse(text);
    // npm warns of the scripts that an installed package would run, and this one has nothing left to build.
    const { prepare, ...kept } = scripts;
    if (prepare === undefined) throw new Error("package.json has no prepare script: there is nothing to strip any more");
    const published = { ...others, scripts: kept };
    if (optionalDependencies === undefined)
      throw new Error("package.json has no optionalDependencies: restore it first, or there is nothing to strip any more");
    writeFileSync(KEPT, text);
    writeFileSync(MANIFEST, `${JSON.stringify(published, null, 2)}\n`);
    break;
  }
  case "restore":
    writeFileSync(MANIFEST, readFileSync(KEPT));
    rmSync(KEPT);
    break;
  default:
    throw new Error("strip or restore");
}
