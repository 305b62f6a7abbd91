// A provider on Node's own servers: plain HTTP/1.1, HTTP/2 without TLS, or both over TLS.
// It answers any POST with the events of one small reply, and prints one line of JSON for each
// thing that happens to a stream. Where the path holds "slow" the reply never ends.
import http from "node:http";
import http2 from "node:http2";
import fs from "node:fs";

const [mode, certificate, key] = process.argv.slice(2);
const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const chunk = (delta, reason) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;

function answer(request, response) {
  const url = request.url;
  tell({ what: "asked", url, version: request.httpVersion, port: request.socket?.remotePort });
  request.resume();
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(chunk({ content: "Once upon" }, null));
  if (!url.includes("slow")) response.end(chunk({ content: " a time" }, "stop") + "data: [DONE]\n\n");
  const stream = response.stream ?? response;
  stream.on("close", () => {
    tell({ what: "closed", url, whole: response.writableEnded, code: stream.rstCode ?? null });
  });
}

// httpcore sends one stream at a time to a server that does not say how many it takes
const settings = { maxConcurrentStreams: 100 };
const tls = () => ({
  settings,
  cert: fs.readFileSync(certificate),
  key: fs.readFileSync(key),
  allowHTTP1: true,
});
const server =
  mode === "h1"
    ? http.createServer(answer)
    : mode === "h2c"
      ? http2.createServer({ settings }, answer)
      : http2.createSecureServer(tls(), answer);
server.listen(0, "127.0.0.1", () => tell({ what: "listening", port: server.address().port }));
