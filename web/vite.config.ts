import { defineConfig } from "vite";

const server = process.env["TURNSTREAM_PAGE_PROXY"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  build: {
    outDir: "../app/_page",
    emptyOutDir: true,
    target: "es2022",
    // The policy allows neither data: scripts and fonts nor inline ones, so every asset is a file.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/api": server, "/v1": server, "/readyz": server } },
});
