function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get("grpc-status") == "8" and headers:get("grpc-retry-pushback-ms") ~= nil then
    headers:replace("grpc-status", "14")
    headers:replace("braid-refused", "8")
  end
end
