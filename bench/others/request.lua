-- wrk's script: sends one request over and over and prints the figures as a JSON object.
--
--     wrk ... -s request.lua URL -- BODY_FILE [NAME: VALUE]...

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  file:close()
  for index = 2, #arguments do
    local name, value = arguments[index]:match("^([^:]+): (.*)$")
    wrk.headers[name] = value
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, '
      .. '"refused": %d, "broken": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
