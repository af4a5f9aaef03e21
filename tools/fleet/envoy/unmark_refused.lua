function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get("braid-refused") == "8" then
    headers:replace("grpc-status", "8")
    headers:remove("braid-refused")
  end
end
