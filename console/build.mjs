// Builds the page: node build.mjs [--out FOLDER]
//
// Writes the files of the page into FOLDER/page and, for the server, FOLDER/console_assets.cc: the same files, compressed,
// as the table that console_assets.h declares. The same sources and libraries give the same bytes.
import * as crypto from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import * as url from "node:url";
import * as zlib from "node:zlib";
import * as esbuild from "esbuild";

const HERE = path.dirname(url.fileURLToPath(import.meta.url));
const OUT = path.resolve(process.argv[2] === "--out" ? process.argv[3] : path.join(HERE, "dist"));
const LIBRARIES = ["preact", "uplot", "@dagrejs/dagre", "@dagrejs/graphlib"];

const hash = (bytes) => crypto.createHash("sha256").update(bytes).digest("hex").slice(0, 16);

function contentType(name) {
  const types = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
  };
  return types[path.extname(name)];
}

async function bundle() {
  const result = await esbuild.build({
    absWorkingDir: HERE,
    entryPoints: { app: "src/main.tsx" },
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none", // licenses.txt has them
    write: false,
    outdir: "out",
    logLevel: "warning",
  });
  const files = {};
  for (const file of result.outputFiles) {
    const extension = path.extname(file.path);
    files[`app.${hash(file.contents)}${extension}`] = Buffer.from(file.contents);
  }
  return files;
}

// The licences of what is bundled, which ask to be handed on with it.
function licenses() {
  const texts = LIBRARIES.map((name) => {
    const folder = path.join(HERE, "node_modules", name);
    const { version } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
    return `${name} ${version}\n\n${fs.readFileSync(path.join(folder, "LICENSE"), "utf8").trim()}\n`;
  });
  return Buffer.from(texts.join(`\n${"-".repeat(80)}\n\n`));
}

function pageFiles(bundled) {
  const files = { ...bundled, "licenses.txt": licenses() };
  const icon = fs.readFileSync(path.join(HERE, "src/icon.svg"));
  const iconName = `icon.${hash(icon)}.svg`;
  files[iconName] = icon;
  const named = (extension) => Object.keys(bundled).find((name) => name.endsWith(extension));
  const html = fs
    .readFileSync(path.join(HERE, "src/index.html"), "utf8")
    .replace("{app.js}", named(".js"))
    .replace("{app.css}", named(".css"))
    .replace("{icon.svg}", iconName);
  files["index.html"] = Buffer.from(html);
  return files;
}

// gzip's header would name the operating system that zlib was built for: 255 is "unknown".
function compress(bytes) {
  const packed = zlib.gzipSync(bytes, { level: 9 });
  packed[9] = 255;
  return packed;
}

// A string literal of C++, in lines of 80 bytes.
function literal(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 80) {
    const line = Array.from(bytes.subarray(at, at + 80), (byte) => `\\${byte.toString(8).padStart(3, "0")}`);
    lines.push(`    "${line.join("")}"`);
  }
  return lines.join("\n");
}

function source(files) {
  const rows = Object.keys(files)
    .sort()
    .map((name) => {
      const packed = compress(files[name]);
      return (
        `    {"${name}", "${contentType(name)}",\n     std::string_view(\n${literal(packed)},\n     ${packed.length}),\n` +
        `     "\\"${hash(files[name])}\\""},`
      );
    });
  return (
    `// Written by console/build.mjs.\n#include "console_assets.h"\n\nnamespace braid {\nnamespace {\n\n` +
    `constexpr ConsoleAsset kAssets[] = {\n${rows.join("\n")}\n};\n\n}  // namespace\n\n` +
    `std::span<const ConsoleAsset> ConsoleAssets() { return kAssets; }\n\n}  // namespace braid\n`
  );
}

const files = pageFiles(await bundle());
const page = path.join(OUT, "page");
fs.rmSync(page, { recursive: true, force: true });
fs.mkdirSync(page, { recursive: true });
let packed = 0;
for (const [name, bytes] of Object.entries(files)) {
  fs.writeFileSync(path.join(page, name), bytes);
  packed += compress(bytes).length;
}
fs.writeFileSync(path.join(OUT, "console_assets.cc"), source(files));
console.log(`console: ${Object.keys(files).length} files, ${Math.ceil(packed / 1000)} kB compressed`);
