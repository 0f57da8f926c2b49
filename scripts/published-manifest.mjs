/**
 * Before packing, `strip` removes two parts of package.json: the Node that the npm scripts of this repository use, and the script that builds a clone.
 * `restore` adds them again. With them, a user of the package would install 100 MB for nothing, and get another Node in `node_modules/.bin`.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";

const MANIFEST = new URL("../package.json", import.meta.url);
const KEPT = new URL("../.package.json.kept", import.meta.url);

const text = readFileSync(MANIFEST, "utf8");
switch (process.argv[2]) {
  case "strip": {
    const { optionalDependencies, scripts, ...others } = JSON.parse(text);
    // npm warns about the scripts of an installed package, and the published package has nothing to build.
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
