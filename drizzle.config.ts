import { defineConfig } from "drizzle-kit";

export default defineConfig({ dialect: "sqlite", schema: "./src/coordinator/store/schema.ts", out: "./migrations" });
