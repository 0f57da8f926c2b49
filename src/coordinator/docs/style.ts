/** The whole style of the documentation page: system fonts, light and dark by the reader's setting, nothing from outside. */
export const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d5d9e0, #363c47); --soft: light-dark(#f4f6f9, #191d24); --dim: light-dark(#545e6f, #a3adbd); --link: light-dark(#0b57c2, #8ab8ff); }
* { box-sizing: border-box; }
body { margin: 0; font: 1rem/1.6 system-ui, sans-serif; color: light-dark(#171b22, #e6e9ee); background: light-dark(#fff, #101318); }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; padding: .5rem 1rem; background: var(--soft); }
.page { display: grid; grid-template-columns: minmax(0, 1fr); max-width: 76rem; margin: 0 auto; padding: 0 1.25rem 4rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { margin: .15rem 0; }
nav h2 { font-size: .85rem; margin: 1rem 0 .25rem; padding: 0; border: 0; color: var(--dim); }
@media (min-width: 60rem) { .page { grid-template-columns: 17rem minmax(0, 1fr); gap: 3rem; } nav { position: sticky; top: 0; max-height: 100vh; overflow: auto; padding: 1rem 0; } }
h1 { line-height: 1.2; margin: 2rem 0 .5rem; }
h2 { margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { margin: 2rem 0 .5rem; font-size: 1.1rem; }
h4 { margin: 1.25rem 0 .25rem; font-size: 1rem; }
code, pre { font: .875rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
:not(pre) > code { background: var(--soft); padding: .1em .3em; border-radius: .25rem; overflow-wrap: anywhere; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .4rem; padding: .75rem 1rem; overflow: auto; margin: .5rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; }
summary { cursor: pointer; }
.method { font-weight: 700; }
.dim { color: var(--dim); }
`.trim();
