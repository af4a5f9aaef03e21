#include "storage/credentials.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "config/config_file.h"
#include "config/json_reader.h"

namespace braid {
namespace {

constexpr std::string_view kCredentialFile = "TRITON_CLOUD_CREDENTIAL_PATH";
constexpr std::string_view kAzureSuffix = "blob.core.windows.net";
// The account of Azure's emulator, whose key rclone knows.
constexpr std::string_view kEmulatorAccount = "devstoreaccount1";

// Settings of rclone's that its operator may set; others would change the output that is read here.
constexpr std::array<std::string_view, 6> kOperatorSettings = {
    "RCLONE_S3_", "RCLONE_GCS_", "RCLONE_AZUREBLOB_", "RCLONE_BWLIMIT", "RCLONE_TRANSFERS", "RCLONE_CA_CERT"};

std::string Setting(std::string_view name) { return "RCLONE_CONFIG_BRAID_" + std::string(name); }

std::string ValueOf(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::string FirstOf(const Variables& variables, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (std::string value = ValueOf(variables, name); !value.empty()) return value;
  }
  return "";
}

// One entry of the file. Only the fields of its store are set.
struct Credentials {
  std::string google_file;
  std::string key_id, secret_key, region, session_token, profile;
  std::string account, account_key;
};

class CredentialReader {
 public:
  CredentialReader(const Json& json, JsonFaults& faults) : root_(json, "", faults), faults_(faults) {}

  // Checks the whole file, and returns the entry for the URL.
  std::optional<Credentials> Find(const StorageUrl& url) {
    for (const auto& [store, key] : {std::pair{StorageUrl::Store::kGoogle, "gs"},
                                     {StorageUrl::Store::kS3, "s3"},
                                     {StorageUrl::Store::kAzure, "as"}}) {
      ReadStore(store, key, url);
    }
    root_.Finish();
    return std::move(found_);
  }

 private:
  void ReadStore(StorageUrl::Store store, const std::string& key, const StorageUrl& url) {
    const Json* entries = root_.Get(key);
    if (entries == nullptr) return;
    if (!entries->is_object()) return root_.Fault(key, "expected an object");
    for (const auto& [prefix, value] : entries->items()) {
      const std::string path = JsonPath(root_.PathOf(key), prefix);
      Credentials credentials = Read(store, value, path);
      if (store != url.store || !url.text.starts_with(prefix)) continue;
      if (found_ && prefix.size() < length_) continue;
      length_ = prefix.size();
      found_ = std::move(credentials);
    }
  }

  Credentials Read(StorageUrl::Store store, const Json& value, const std::string& path) {
    Credentials read;
    if (store == StorageUrl::Store::kGoogle) {
      read.google_file = ReadJsonText(value, path, faults_).value_or("");
      return read;
    }
    JsonObject entry(value, path, faults_);
    if (store == StorageUrl::Store::kS3) {
      read.key_id = entry.Text("key_id").value_or("");
      read.secret_key = entry.Text("secret_key").value_or("");
      read.region = entry.Text("region").value_or("");
      read.session_token = entry.Text("session_token").value_or("");
      read.profile = entry.Text("profile").value_or("");
      if (read.key_id.empty() != read.secret_key.empty())
        faults_.Add(path, "key_id and secret_key must be set together");
    } else {
      read.account = entry.Text("account_str").value_or("");
      read.account_key = entry.Text("account_key").value_or("");
    }
    entry.Finish();
    return read;
  }

  JsonObject root_;
  JsonFaults& faults_;
  std::optional<Credentials> found_;
  size_t length_ = 0;
};

Result<std::optional<Credentials>> FromFile(const StorageUrl& url, const Variables& variables) {
  const std::string path = ValueOf(variables, kCredentialFile);
  if (path.empty()) return std::optional<Credentials>();
  const std::string where = std::string(kCredentialFile) + " '" + path + "': ";
  auto text = ReadConfigFile(path);
  if (!text.ok()) return text.status().WithPrefix(std::string(kCredentialFile) + ": ");
  JsonFaults faults;
  auto json = ParseJsonText(*text, faults);
  if (!json.ok()) return json.status().WithPrefix(where);
  auto found = CredentialReader(*json, faults).Find(url);
  if (!faults.empty()) return InvalidArgumentError(where + faults.Text());
  return found;
}

class Translation {
 public:
  Translation(const StorageUrl& url, const Variables& variables) : url_(url), given_(variables) {
    remote_.place = "braid:" + url.bucket + (url.path.empty() ? "" : "/" + url.path);
    for (const auto& [name, value] : variables) {
      const bool ours = name.starts_with("RCLONE_") &&
                        std::ranges::none_of(kOperatorSettings, [&name = name](std::string_view setting) {
                          return name.starts_with(setting);
                        });
      if (!ours) remote_.variables[name] = value;
    }
  }

  Result<RcloneRemote> Run() {
    BRAID_ASSIGN_OR_RETURN(const std::optional<Credentials> file, FromFile(url_, given_));
    switch (url_.store) {
      case StorageUrl::Store::kS3:
        BRAID_RETURN_IF_ERROR(S3(file));
        break;
      case StorageUrl::Store::kGoogle:
        Google(file);
        break;
      case StorageUrl::Store::kAzure:
        BRAID_RETURN_IF_ERROR(Azure(file));
        break;
    }
    return std::move(remote_);
  }

 private:
  void Set(std::string_view name, std::string value) { remote_.variables[Setting(name)] = std::move(value); }
  void SetSecret(std::string_view name, const std::string& value) {
    Set(name, value);
    Hide(value);
  }
  void Hide(const std::string& value) {
    if (!value.empty()) remote_.secrets.push_back(value);
  }

  Status S3(const std::optional<Credentials>& file) {
    Set("TYPE", "s3");
    std::string endpoint = url_.endpoint;
    if (endpoint.empty()) {
      endpoint = FirstOf(given_, {"S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
      if (endpoint.find('@') != std::string::npos)
        return InvalidArgumentError("the variable with the endpoint of S3 must not contain credentials");
    }
    Set("PROVIDER",
        endpoint.empty() || endpoint.find("amazonaws.com") != std::string::npos ? "AWS" : "Other");
    if (!endpoint.empty()) Set("ENDPOINT", endpoint);
    std::string region = file ? file->region : "";
    if (region.empty()) region = FirstOf(given_, {"AWS_REGION", "AWS_DEFAULT_REGION"});
    if (!region.empty()) Set("REGION", region);
    // rclone's transport does not take this variable, which would be an error.
    remote_.ca_file = ValueOf(given_, "AWS_CA_BUNDLE");
    remote_.variables.erase("AWS_CA_BUNDLE");
    if (file && !file->key_id.empty()) {
      Set("ENV_AUTH", "false");
      Set("ACCESS_KEY_ID", file->key_id);
      SetSecret("SECRET_ACCESS_KEY", file->secret_key);
      if (!file->session_token.empty()) SetSecret("SESSION_TOKEN", file->session_token);
      return OkStatus();
    }
    Set("ENV_AUTH", "true");
    if (file && !file->profile.empty()) {
      // Keys in the environment would come before those of the profile.
      for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})
        remote_.variables.erase(name);
      remote_.variables["AWS_PROFILE"] = file->profile;
    }
    for (const char* name : {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) Hide(ValueOf(given_, name));
    remote_.anonymous[Setting("ENV_AUTH")] = "false";
    return OkStatus();
  }

  void Google(const std::optional<Credentials>& file) {
    Set("TYPE", "gcs");
    if (file && !file->google_file.empty())
      remote_.variables["GOOGLE_APPLICATION_CREDENTIALS"] = file->google_file;
    if (std::string emulator = ValueOf(given_, "STORAGE_EMULATOR_HOST"); !emulator.empty()) {
      if (emulator.find("://") == std::string::npos) emulator = "http://" + emulator;
      Set("ENDPOINT", emulator + (emulator.ends_with('/') ? "" : "/") + "storage/v1/");
      Set("ANONYMOUS", "true");
      return;
    }
    remote_.anonymous[Setting("ANONYMOUS")] = "true";
  }

  Status Azure(const std::optional<Credentials>& file) {
    Set("TYPE", "azureblob");
    std::string account = ValueOf(given_, "AZURE_STORAGE_ACCOUNT");
    std::string key = ValueOf(given_, "AZURE_STORAGE_KEY");
    std::string source = "AZURE_STORAGE_ACCOUNT";
    if (file) {
      account = file->account;
      key = file->account_key;
      source = "account_str";
    } else if (const std::string text = ValueOf(given_, "AZURE_STORAGE_CONNECTION_STRING"); !text.empty()) {
      return AzureConnection(text);
    }
    // "ACCOUNT" or "ACCOUNT.SUFFIX"
    const size_t dot = std::min(url_.account.find('.'), url_.account.size());
    const std::string named = url_.account.substr(0, dot);
    const std::string suffix = url_.account.substr(std::min(dot + 1, url_.account.size()));
    if (!named.empty() && !account.empty() && account != named) {
      return InvalidArgumentError("'" + url_.text + "' names the account '" + named + "', and " + source +
                                  " '" + account + "'");
    }
    return AzureAccount(named.empty() ? account : named, key, suffix, "the variable AZURE_STORAGE_ACCOUNT");
  }

  Status AzureAccount(const std::string& account, const std::string& key, const std::string& suffix,
                      const std::string& missing) {
    if (account.empty()) return InvalidArgumentError("'" + url_.text + "' needs an account; set " + missing);
    if (key.empty()) {
      Set("SAS_URL", "https://" + account + "." + (suffix.empty() ? std::string(kAzureSuffix) : suffix));
      return OkStatus();
    }
    Set("ACCOUNT", account);
    SetSecret("KEY", key);
    if (!suffix.empty()) Set("ENDPOINT", suffix);
    return OkStatus();
  }

  Status AzureConnection(std::string_view text) {
    std::map<std::string, std::string, std::less<>> parts;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t end = std::min(rest.find(';'), rest.size());
      const std::string_view part = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const size_t equals = part.find('=');
      if (equals != std::string_view::npos) parts.emplace(part.substr(0, equals), part.substr(equals + 1));
    }
    const auto get = [&parts](std::string_view name) { return ValueOf(parts, name); };
    constexpr const char* kName = "AZURE_STORAGE_CONNECTION_STRING";
    std::string endpoint = get("BlobEndpoint");
    while (endpoint.ends_with('/')) endpoint.pop_back();
    const std::string account = get("AccountName");
    if (!url_.account.empty() && !account.empty() && url_.account != account) {
      return InvalidArgumentError("'" + url_.text + "' names the account '" + url_.account + "', and " +
                                  std::string(kName) + " '" + account + "'");
    }
    if (get("UseDevelopmentStorage") == "true" || account == kEmulatorAccount) {
      Set("USE_EMULATOR", "true");
      Set("ENDPOINT", endpoint.empty() ? "http://127.0.0.1:10000/devstoreaccount1" : endpoint);
      return OkStatus();
    }
    const std::string ending = get("EndpointSuffix");
    const std::string suffix = ending.empty() ? "" : "blob." + ending;
    const std::string usual =
        "https://" + account + "." + (suffix.empty() ? std::string(kAzureSuffix) : suffix);
    if (const std::string signature = get("SharedAccessSignature"); !signature.empty()) {
      if (endpoint.empty() && account.empty())
        return InvalidArgumentError(std::string(kName) + ": expected AccountName or BlobEndpoint");
      SetSecret("SAS_URL", (endpoint.empty() ? usual : endpoint) + "?" + signature);
      Hide(signature);
      return OkStatus();
    }
    if (account.empty() || get("AccountKey").empty()) {
      return InvalidArgumentError(std::string(kName) +
                                  ": expected AccountName with AccountKey, or SharedAccessSignature");
    }
    if (!endpoint.empty() && endpoint != usual) {
      return UnsupportedError(std::string(kName) + ": rclone reaches the BlobEndpoint '" + endpoint +
                              "' only with a SharedAccessSignature");
    }
    return AzureAccount(account, get("AccountKey"), suffix, kName);
  }

  const StorageUrl& url_;
  const Variables& given_;
  RcloneRemote remote_;
};

}  // namespace

Variables OwnVariables() {
  Variables variables;
  for (const char* const* each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Result<RcloneRemote> RemoteOf(const StorageUrl& url, const Variables& variables) {
  return Translation(url, variables).Run();
}

}  // namespace braid
