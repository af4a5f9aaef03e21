#include "commands/command.h"

int main(int argc, char** argv) { return braid::RunProgram(argc, argv); }
