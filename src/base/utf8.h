// UTF-8 text: validation, and versions of a text that are safe to show if it is invalid, too long, or has
// secrets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace braid {

bool IsUtf8(std::string_view text);

// Returns the text with U+FFFD in place of invalid bytes, for documents and messages that must be UTF-8.
std::string ToUtf8(std::string_view text);

// The number of bytes that an error text repeats of a client's text.
inline constexpr size_t kMostRepeated = 512;

// Returns the text; if it is longer than `most` bytes, its first characters and its size: "abc... (70000
// bytes)". For error texts that repeat a client's input, which may be as long as a message.
std::string Shortened(std::string_view text, size_t most = kMostRepeated);

// Returns the message with users and passwords in URLs and addresses replaced: "s3://***@host". For errors
// that repeat a command line.
std::string WithoutCredentials(std::string_view message);

// Returns the text as one word of a shell command.
std::string ShellQuoted(std::string_view text);

// Removes the next character from `text` and returns it. If no character begins there, removes one byte and
// returns nothing. REQUIRES: `text` is not empty.
std::optional<char32_t> TakeCharacter(std::string_view& text);

// Returns whether a character is invisible but affects the display of text. These are U+0000 to U+001F,
// U+007F to U+009F, the line and paragraph separators, and those that change the direction of writing.
bool IsControlCharacter(char32_t character);

}  // namespace braid
