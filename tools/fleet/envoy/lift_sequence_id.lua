local function number_at(body, at)
  local value, factor = 0, 1
  while true do
    local byte = body:byte(at)
    if byte == nil or factor > 2 ^ 63 then return nil end
    value = value + (byte % 128) * factor
    factor = factor * 128
    at = at + 1
    if byte < 128 then return value, at end
  end
end

-- Digits of a number that may be larger than what a double holds, and whose sign is that of 64 bits.
local function digits_at(body, at)
  local groups = {}
  repeat
    local byte = body:byte(at)
    if byte == nil or #groups == 10 then return nil end
    groups[#groups + 1] = byte % 128
    at = at + 1
  until byte < 128
  local digits = {0}
  for i = #groups, 1, -1 do
    local carry = groups[i]
    for j = 1, #digits do
      local sum = digits[j] * 128 + carry
      digits[j] = sum % 10
      carry = math.floor(sum / 10)
    end
    while carry > 0 do
      digits[#digits + 1] = carry % 10
      carry = math.floor(carry / 10)
    end
  end
  return table.concat(digits):reverse()
end

-- Calls visit(field, kind, from, to) for each field of the message in body[at..last]: from is where its value begins.
local function fields(body, at, last, visit)
  while at <= last do
    local key, from = number_at(body, at)
    if key == nil then return end
    local field, kind = math.floor(key / 8), key % 8
    local to
    if kind == 0 then
      local _, behind = number_at(body, from)
      if behind == nil then return end
      to = behind - 1
    elseif kind == 1 then
      to = from + 7
    elseif kind == 2 then
      local size, begin = number_at(body, from)
      if size == nil then return end
      from, to = begin, begin + size - 1
    elseif kind == 5 then
      to = from + 3
    else
      return
    end
    if to > last or visit(field, kind, from, to) == false then return end
    at = to + 1
  end
end

local function id_of_message(body)
  if body:byte(1) ~= 0 then return nil end  -- compressed
  local model, id
  fields(body, 6, #body, function(field, kind, from, to)
    if field == 1 and kind == 2 then model = body:sub(from, to) end
    if field ~= 4 or kind ~= 2 then return end
    local name, value
    fields(body, from, to, function(part, part_kind, a, b)
      if part == 1 and part_kind == 2 then name = body:sub(a, b) end
      if part ~= 2 or part_kind ~= 2 then return end
      fields(body, a, b, function(choice, choice_kind, c, d)
        if (choice == 2 or choice == 5) and choice_kind == 0 then value = digits_at(body, c) end
        if choice == 3 and choice_kind == 2 then value = body:sub(c, d) end
      end)
    end)
    if name == "sequence_id" then id = value end
  end)
  return models[model or ""] and id
end

local function id_of_json(body)
  local _, behind = body:find('"sequence_id"%s*:%s*')
  if behind == nil then return nil end
  return body:match("^%[?%s*(%d+)", behind + 1) or body:match('^"([%w%._%-]+)"', behind + 1)
end

function envoy_on_request(handle)
  local headers = handle:headers()
  if headers:get("braid-sequence-id") ~= nil or headers:get(":method") ~= "POST" then return end
  local path = headers:get(":path")
  local of_grpc = path == "/inference.GRPCInferenceService/ModelInfer"
  local model = path:match("^/v[12]/models/([^/:?]+)")
  if not of_grpc and not models[model or ""] then return end
  if headers:get("content-encoding") ~= nil then return end
  local json_bytes = tonumber(headers:get("inference-header-content-length") or "")
  local body = handle:body()  -- waits for it; what was got before is good no longer
  if body == nil or body:length() == 0 then return end
  local size = body:length()
  if not of_grpc then size = math.min(size, json_bytes or size) end
  local text = body:getBytes(0, size)
  local id = of_grpc and id_of_message(text) or not of_grpc and id_of_json(text)
  if not id or id == "" or id == "0" then return end
  handle:headers():add("braid-sequence-id", id)
  handle:clearRouteCache()
end
