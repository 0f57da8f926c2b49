// Makes /docs/api.md, the description of the API for programs that read text, from the OpenAPI document, when the pages are built [API8].
import type { Operation } from "./components.ts";
import type { OpenApiDocument } from "./document.ts";

/** The OpenAPI document as one page of Markdown. */
export function apiMarkdown(document: OpenApiDocument): string {
  const { components } = document;
  const { title, version, summary, description } = document.info;
  const endpoints = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
  const groups = document.tags.map((tag) => {
    const texts = endpoints
      .filter(({ operation }) => operation.tags.includes(tag.name) && isForPrograms(operation))
      .map(({ name, operation }) => section(name, operation, components));
    return `## ${tag.name}\n\n${tag.description}\n\n${texts.join("\n\n")}`;
  });
  const intro = `# ${title} API ${version}\n\n> ${summary}\n\n${description.trim()}\n\nThe schemas of requests and answers are in [/openapi.json](/openapi.json).`;
  return `${[intro, ...groups].join("\n\n")}\n`;
}

/** False for pages, scripts and icons. */
function isForPrograms({ responses }: Operation): boolean {
  const ok = responses["200"] ?? responses["201"];
  const types = ok === undefined || "$ref" in ok ? [] : Object.keys(ok.content ?? {});
  return types.some((type) => ["application/json", "text/event-stream", "text/plain"].includes(type));
}

function section(
  name: string,
  { summary, description, parameters = [], requestBody, responses }: Operation,
  components: OpenApiDocument["components"],
): string {
  const [example] = Object.values(requestBody?.content["application/json"].examples ?? {});
  const parts = [
    `### ${name}`,
    `${summary}. ${description}`,
    parameters.map((one) => `- \`${one.name}\` (${one.in}${one.required === true ? ", required" : ""}): ${one.description}`).join("\n"),
    example === undefined ? "" : `Body, for example:\n\n\`\`\`json\n${JSON.stringify(example.value)}\n\`\`\``,
    Object.entries(responses)
      .map(
        ([status, response]) =>
          `- ${status}: ${"$ref" in response ? components.responses[response.$ref.split("/").at(-1) ?? ""]?.description : response.description}`,
      )
      .join("\n"),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}
