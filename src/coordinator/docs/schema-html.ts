import type { JsonSchema } from "./document.ts";
import { escapeHtml, inline, table } from "./html.ts";

/** What a schema says in one cell: its type, what it points to, its bounds. */
export function typeOf(schema: JsonSchema): string {
  if (schema.$ref !== undefined) {
    const name = escapeHtml(schema.$ref.split("/").at(-1) ?? "");
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (schema.const !== undefined) return `<code>${escapeHtml(JSON.stringify(schema.const))}</code>`;
  if (schema.enum !== undefined) return schema.enum.map((value) => `<code>${escapeHtml(JSON.stringify(value))}</code>`).join(" or ");
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices !== undefined) return choices.map(typeOf).join(" or ");
  if (schema.items !== undefined) return `array of ${typeOf(schema.items)}`;
  const base = [schema.type ?? "any"].flat().join(" or ");
  const bounds = [
    schema.format && `(${schema.format})`,
    schema.pattern && `matching <code>${escapeHtml(schema.pattern)}</code>`,
    schema.minimum !== undefined && `from ${schema.minimum}`,
    // zod bounds every integer by what a double can hold; that is no news.
    schema.maximum !== undefined && schema.maximum < Number.MAX_SAFE_INTEGER && `to ${schema.maximum}`,
    schema.minLength !== undefined && `at least ${schema.minLength} character${schema.minLength === 1 ? "" : "s"}`,
    schema.maxLength !== undefined && `at most ${schema.maxLength} characters`,
  ];
  return [base, ...bounds.filter((bound) => typeof bound === "string")].join(" ");
}

/** A schema in full: its members as a table, each alternative with one of its own. */
export function schemaHtml(schema: JsonSchema): string {
  const description = schema.description === undefined ? "" : `<p>${inline(schema.description)}</p>`;
  if (schema.oneOf !== undefined) return description + schema.oneOf.map((choice, i) => `<h4>Form ${i + 1}</h4>${schemaHtml(choice)}`).join("\n");
  if (schema.properties === undefined) return `${description}<p>${typeOf(schema)}</p>`;
  const rows = Object.entries(schema.properties).flatMap(([name, member]) => memberRows(name, member, schema.required?.includes(name) ?? false));
  const open = typeof schema.additionalProperties === "object" ? '<p class="dim">Other members are kept.</p>' : "";
  return `${description}${table(["Member", "Type", "Required", "Notes"], rows)}${open}`;
}

/** The row of a member, and those of an object right inside it. */
function memberRows(name: string, member: JsonSchema, required: boolean): string[][] {
  const notes = [
    member.description && inline(member.description),
    member.default !== undefined && `Default <code>${escapeHtml(JSON.stringify(member.default))}</code>.`,
  ];
  const row = [`<code>${escapeHtml(name)}</code>`, typeOf(member), required ? "yes" : "no", notes.filter((note) => typeof note === "string").join(" ")];
  const [inner, prefix] = member.items?.properties === undefined ? [member, name] : [member.items, `${name}[]`];
  const innerRows = Object.entries(inner.properties ?? {}).flatMap(([child, schema]) =>
    memberRows(`${prefix}.${child}`, schema, inner.required?.includes(child) ?? false),
  );
  return [row, ...innerRows];
}
